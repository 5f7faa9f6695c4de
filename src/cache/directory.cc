#include "cache/directory.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>

#include "cache/directory_open.h"
#include "cache/directory_sweep.h"

namespace penstock::cache {

namespace {

std::string new_member() {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}", ::getpid(), device(), device());
}

std::string fan_out(const EntryName& name) {
  return fmt::format("{:02x}", name.id.high >> 56);
}

class Directory final : public CacheDirectory {
 public:
  Directory(io::FileSystem& fs, std::string path, io::CacheMode mode)
      : fs_(fs), path_(std::move(path)), mode_(mode), member_(new_member()) {}

  io::FileSystem& file_system() const override { return fs_; }
  const std::string& path() const override { return path_; }
  const std::string& member() const override { return member_; }
  std::string path_of(const EntryName& name) const override {
    return fmt::format("{}/{}", parent_of(name), name.text());
  }

  Result<std::unique_ptr<io::File>> open_entry(const EntryName& name) override;
  Result<void> publish(const EntryName& name, io::MemorySlice file) override;
  Result<void> drop(const EntryName& name) override;
  Result<void> scan(const std::function<bool(const EntryName&)>& visit,
                    const std::function<void(const std::string&)>& foreign) override;
  Result<void> sweep() override;
  Result<void> probe() override;
  Result<io::SpaceInfo> space() override { return fs_.space(path_); }

 private:
  std::string part_of(const char* name) const { return fmt::format("{}/{}", path_, name); }
  std::string parent_of(const EntryName& name) const {
    return fmt::format("{}/{}/{}", path_, kEntriesName, fan_out(name));
  }
  std::string new_temporary() {
    return fmt::format("{}/{}/{}-{}", path_, kTemporaryName, member_, counter_++);
  }
  Result<void> check_no_links(std::initializer_list<std::string> directories);
  Result<void> write_file(const std::string& path, io::MemorySlice file);
  Result<void> move_in(const std::string& temporary, const EntryName& name);
  Result<void> check_drive(const std::string& temporary);

  io::FileSystem& fs_;
  const std::string path_;
  const io::CacheMode mode_;
  const std::string member_;
  std::atomic<uint64_t> counter_{0};
};

Result<std::unique_ptr<io::File>> Directory::open_entry(const EntryName& name) {
  const std::string path = path_of(name);
  Result<std::unique_ptr<io::File>> file =
      fs_.open(path, {.mode = mode_, .require_mode = false, .plain_only = true});
  if (!file.ok() && file.error().code == ErrorCode::kInvalid) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} is not an entry of ours", path));
  }
  return file;
}

// Opening has looked at all of them; this is for what was planted since.
Result<void> Directory::check_no_links(std::initializer_list<std::string> directories) {
  for (const std::string& directory : directories) {
    const Result<io::FileInfo> info = fs_.stat_link(directory);
    if (!info.ok() && info.error().code != ErrorCode::kNotFound) return info.error();
    if (!info.ok() || info->kind != io::FileKind::kSymlink) continue;
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is a symbolic link, which none in a cache is", directory));
  }
  return {};
}

Result<void> Directory::write_file(const std::string& path, io::MemorySlice file) {
  const std::unique_ptr<io::File> temporary =
      PENSTOCK_TRY(fs_.open(path, {.access = io::Access::kWrite,
                                   .create = io::Create::kMustNotExist,
                                   .mode = mode_,
                                   .require_mode = false}));
  // First, so that a full drive costs no writing.
  const Result<void> allocated = temporary->allocate(0, file.size);
  if (!allocated.ok() && allocated.error().code != ErrorCode::kUnsupported) return allocated;
  std::array requests = {io::IoRequest::write(0, file, nullptr)};
  PENSTOCK_TRY(io::run_all(*temporary, requests));
  return temporary->close();
}

Result<void> Directory::move_in(const std::string& temporary, const EntryName& name) {
  Result<void> moved = fs_.rename(temporary, path_of(name));
  if (moved.ok() || moved.error().code != ErrorCode::kNotFound) return moved;
  // The first entry of its 256th part. Not more than that is made: where all is gone, the drive is.
  const Result<void> made = fs_.make_directory(parent_of(name));
  if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
  moved = fs_.rename(temporary, path_of(name));
  if (moved.ok() || moved.error().code != ErrorCode::kNotFound) return moved;
  return make_error(ErrorCode::kBusy,
                    fmt::format("somebody removed {} before it was published", temporary), true);
}

Result<void> Directory::publish(const EntryName& name, io::MemorySlice file) {
  if (file.size != name.file_bytes()) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("cache entry {} of {} bytes", name.text(), file.size));
  }
  PENSTOCK_TRY(check_no_links({part_of(kTemporaryName), part_of(kEntriesName), parent_of(name)}));
  const std::string temporary = new_temporary();
  Result<void> done = write_file(temporary, file);
  if (done.ok()) done = move_in(temporary, name);
  // Also one that was not made: a failed open may have made it.
  if (!done.ok()) (void)fs_.remove(temporary);
  return done;
}

Result<void> Directory::drop(const EntryName& name) {
  PENSTOCK_TRY(check_no_links({part_of(kEntriesName), parent_of(name)}));
  const std::string path = path_of(name);
  const Result<std::unique_ptr<io::File>> file =
      fs_.open(path, {.access = io::Access::kWrite, .plain_only = true});
  if (!file.ok() && file.error().code == ErrorCode::kNotFound) return {};
  PENSTOCK_TRY(unless_missing(fs_.remove(path)));
  if (!file.ok()) return {};
  // With its name gone nobody finds it cut; and one that has a name left belongs to somebody else
  // too. Where cutting fails, the space comes back when the last reader closes.
  const Result<io::FileInfo> info = (*file)->stat();
  if (info.ok() && info->links == 0) (void)(*file)->truncate(0);
  return {};
}

Result<void> Directory::scan(const std::function<bool(const EntryName&)>& visit,
                             const std::function<void(const std::string&)>& foreign) {
  return scan_entries(fs_, fmt::format("{}/{}", path_, kEntriesName), visit, foreign);
}

Result<void> Directory::sweep() {
  PENSTOCK_TRY(check_no_links({part_of(kTemporaryName), part_of(kMembersName)}));
  return sweep_members(fs_, path_, member_);
}

Result<void> Directory::check_drive(const std::string& temporary) {
  alignas(kBlockBytes) std::array<std::byte, kBlockBytes> written;
  alignas(kBlockBytes) std::array<std::byte, kBlockBytes> read{};
  std::minstd_rand random(static_cast<unsigned>(counter_.load()));
  for (std::byte& byte : written) byte = static_cast<std::byte>(random() & 0xff);
  // Direct in any mode: the page cache would answer for a dead drive.
  const std::unique_ptr<io::File> file =
      PENSTOCK_TRY(fs_.open(temporary, {.access = io::Access::kReadWrite,
                                        .create = io::Create::kMustNotExist,
                                        .mode = io::CacheMode::kDirect,
                                        .require_mode = false}));
  PENSTOCK_TRY(file->write(0, written));
  const size_t count = PENSTOCK_TRY(file->read(0, read));
  PENSTOCK_TRY(file->close());
  if (count == read.size() && read == written) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{} does not hold what was just written to it", temporary));
}

Result<void> Directory::probe() {
  const std::string temporary = new_temporary();
  const Result<void> checked = check_drive(temporary);
  const Result<void> removed = unless_missing(fs_.remove(temporary));
  return checked.ok() ? removed : checked;
}

}  // namespace

Result<std::unique_ptr<CacheDirectory>> CacheDirectory::open(io::FileSystem& fs, std::string path,
                                                             io::CacheMode mode, bool must_exist) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  PENSTOCK_TRY(prepare_directory(fs, path, must_exist));
  return std::unique_ptr<CacheDirectory>(std::make_unique<Directory>(fs, std::move(path), mode));
}

}  // namespace penstock::cache
