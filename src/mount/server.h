// Answers the kernel's requests about one volume. One function for each kind of request; what it
// means is in fuse_lowlevel.h, beside what Linux makes of it.
//
// The kernel checks permissions (default_permissions), keeps locks, and holds names, attributes and
// pages until it is told otherwise: of what others change through the owner of the volume
// (invalidation.h). All other changes come from this kernel.
// Threads: requests come from many at once.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "base/thread_pool.h"
#include "mount/access_times.h"
#include "mount/acl.h"
#include "mount/capability_notes.h"
#include "mount/control.h"
#include "mount/fuse.h"
#include "mount/listing_ends.h"
#include "mount/lookups.h"
#include "mount/page_flush.h"
#include "mount/request_watch.h"
#include "mount/write_times.h"
#include "penstock/io.h"
#include "penstock/mount.h"
#include "volume/read_ahead.h"

namespace penstock::mount {

class Server {
 public:
  // `view` is what is shown, `live` the same volume where it can be changed. Both outlive it.
  Server(volume::VolumeView& view, volume::Volume* live, Control& control,
         const std::string& directory, const MountOptions& options);

  // server.cc
  void init(fuse_conn_info* connection);
  void destroy();
  void set_session(fuse_session* session) { session_ = session; }
  RequestWatch& watch() { return watch_; }
  const Lookups& lookups() const { return lookups_; }
  void begin();  // Before every request.

  // server_names.cc
  void lookup(fuse_req_t request, fuse_ino_t parent, const char* name);
  void forget(fuse_req_t request, fuse_ino_t ino, uint64_t count);
  void forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets);
  void readlink(fuse_req_t request, fuse_ino_t ino);
  void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev);
  void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode);
  void symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name);
  void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
              fuse_file_info* file);
  void link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t parent, const char* name);
  void unlink(fuse_req_t request, fuse_ino_t parent, const char* name);
  void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name);
  void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
              const char* new_name, unsigned flags);

  // server_directories.cc
  void opendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file);
  void readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file);
  void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                   fuse_file_info* file);
  void fsyncdir(fuse_req_t request, fuse_ino_t ino, int only_data, fuse_file_info* file);

  // server_attributes.cc
  void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file);
  void setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int which,
               fuse_file_info* file);
  void statfs(fuse_req_t request, fuse_ino_t ino);

  // server_xattrs.cc
  void setxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value,
                size_t size, int flags);
  void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size);
  void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size);
  void removexattr(fuse_req_t request, fuse_ino_t ino, const char* name);

  // server_content.cc
  void open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file);
  void flush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file);
  void read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file);
  void write(fuse_req_t request, fuse_ino_t ino, const char* bytes, size_t size, off_t offset,
             fuse_file_info* file);
  void fsync(fuse_req_t request, fuse_ino_t ino, int only_data, fuse_file_info* file);
  void fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                 fuse_file_info* file);
  void copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset,
                       fuse_file_info* from_file, fuse_ino_t to, off_t to_offset,
                       fuse_file_info* to_file, size_t length, int flags);
  void lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info* file);

 private:
  struct Made {
    meta::NewInode inode;
    std::optional<Acl> access;
    std::optional<std::string> inherited_default;  // Of directories: goes on to what is made there.
  };

  meta::View& names() { return view_.names(); }
  // The kernel gathers writes.
  bool gathers() const { return live_ != nullptr && options_.gather_writes; }
  // A file that another process is still putting.
  bool is_hidden(meta::Ino parent, std::string_view name) const;
  double attributes_last(uint32_t mode) const;  // Seconds.
  struct stat stat_of(meta::Inode inode);
  fuse_entry_param entry_of(const meta::Inode& inode);
  void reply_entry(fuse_req_t request, const meta::Inode& inode);
  void reply_attr(fuse_req_t request, const meta::Inode& inode);
  void reply_error(fuse_req_t request, const Error& error, std::string_view operation,
                   meta::Ino ino);
  void reply_done(fuse_req_t request, const Result<void>& done, std::string_view operation,
                  meta::Ino ino);
  bool refuse_change(fuse_req_t request);  // True, and answered, where nothing can be changed.
  Result<meta::Inode> find(meta::Ino parent, std::string_view name);
  Result<Made> prepare(fuse_req_t request, meta::Ino parent, mode_t mode);
  Result<meta::Inode> make(meta::Ino parent, std::string_view name, const Made& made);
  void make_and_reply(fuse_req_t request, meta::Ino parent, const char* name, mode_t mode,
                      dev_t rdev, std::string_view target);
  // Around everything that tells the kernel of an inode: the volume keeps what it knows.
  Result<void> tell_of(meta::Ino ino);
  void take_back(meta::Ino ino, uint64_t count);
  void list(fuse_req_t request, meta::Ino ino, size_t size, off_t offset, bool with_attributes);
  size_t add_entry(fuse_req_t request, std::span<char> into, const meta::Entry& entry, off_t next,
                   bool with_attributes);
  // server_special_bits.cc
  uint32_t without_special_bits(fuse_req_t request, const meta::Inode& inode, uint32_t mode) const;
  Result<void> drop_special_bits(fuse_req_t request, meta::Ino ino, bool with_bits);
  Result<void> drop_for_caller(fuse_req_t request, meta::Ino ino);
  void drop_from(fuse_req_t request, meta::Changes& changes, meta::Ino ino);
  Result<void> change_mode_in_acl(meta::Ino ino, uint32_t mode);
  Result<void> set_access_acl(meta::Ino ino, std::string_view value);
  bool answers_for_mount(fuse_req_t request, meta::Ino ino, std::string_view name, size_t size);
  void seek(fuse_req_t request, meta::Ino ino, off_t offset, int whence);
  Result<off_t> find_data(const meta::Inode& inode, uint64_t offset);
  Result<off_t> find_hole(const meta::Inode& inode, uint64_t offset);

  volume::VolumeView& view_;
  volume::Volume* const live_;
  Control& control_;
  const MountOptions options_;
  PageFlush page_flush_;
  AccessLog access_;
  std::optional<WriteTimes> write_times_;  // Where the kernel gathers writes.
  Lookups lookups_;
  ListingEnds listing_ends_;
  volume::ReadAhead read_ahead_;
  CapabilityNotes capabilities_;
  RequestWatch watch_;
  fuse_session* session_ = nullptr;
  std::string directory_;
  ThreadPool seekers_;       // Last: its tasks use the others.
  bool no_open_ = false;     // The kernel can do without being asked to open.
  bool no_opendir_ = false;  // Likewise.
  std::once_flag begun_;
};

// The table of all of them, for fuse_session_new() with a Server as its data.
const fuse_lowlevel_ops& server_operations();

}  // namespace penstock::mount
