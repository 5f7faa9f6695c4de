// How a tree store sees a directory: which files are objects, and in which order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/store.h"
#include "store/list_page.h"

namespace penstock::store {

// Unfinished files begin with this and are never objects.
inline constexpr std::string_view kTreeTemporaryPrefix = ".penstock-tmp-";

// A file that is an object.
struct TreeFile {
  std::string path;  // With no link in it below the root.
  io::FileInfo info;
};

// A name that is too long for the file system is there no more than any other missing one.
bool is_missing(const Error& error);

// What is before the last part of a key: empty, or ending with '/'.
std::string_view folder_of(std::string_view key);

// How a store shows a file.
ObjectInfo tree_object_info(const std::string& key, const io::FileInfo& info);

// `path` without symbolic links, "." and ".."; requires that it begins with '/'.
Result<std::string> real_path(io::FileSystem& fs, const std::string& path);

// Finds objects below a root, which is a real path or a relative one.
// Threads: all calls from any thread.
class TreeFiles {
 public:
  // `links_out`: links to files outside of the root are followed too.
  TreeFiles(io::FileSystem& fs, std::string root, bool links_out = false)
      : fs_(fs), root_(std::move(root)), links_out_(links_out) {}

  std::string path_of(std::string_view key) const;
  // Whether no part of the root's path is a link (unless somebody made it one since).
  bool root_is_real() const { return root_.starts_with('/'); }
  // kNotFound when the key names no regular file, or the way to it leads through a link to a
  // directory, or its last part is a link that leads to no regular file, or out of the tree unless
  // that was asked for.
  Result<TreeFile> find(const std::string& key) const;
  // As find(), for reading.
  Result<std::unique_ptr<io::File>> open(const std::string& key) const;
  // As find(), for a key in a folder that has_folder() knows: one call, unless it is a link.
  Result<TreeFile> find_in_folder(const std::string& key) const;
  // What is really there under the first so many bytes of a key, links not followed.
  Result<io::FileInfo> look(std::string_view key) const;
  // Whether all the directories in `folder` (empty, or ending with '/') are there, and no links. The
  // first `known` bytes are a folder that is.
  Result<bool> has_folder(std::string_view folder, size_t known = 0) const;
  // Whether any object is below `folder`.
  Result<bool> has_object(const std::string& folder) const;
  Result<void> list(const std::string& folder,
                    const std::function<bool(const io::DirectoryEntry&)>& visit) const;

 private:
  io::FileSystem& fs_;
  const std::string root_;
  const bool links_out_;
};

// Walks the keys of a tree in their order as bytes, in which a directory "a" stands as "a/". Lists
// only the directories it has to; of a huge one, only as many names as a NameWindow holds.
// Threads: one at a time.
class TreeWalk {
 public:
  // Shows the names that a listing with these options shows. Does not keep `files`' copy: it
  // outlives the walk.
  TreeWalk(const TreeFiles& files, const ListOptions& options);

  // The next name: a folder, which has objects, or what looked like an object in its directory and
  // may turn out to be none. Nothing at the end.
  Result<std::optional<std::string>> next();
  size_t memory_bytes() const;

 private:
  struct Frame {
    std::string folder;
    NameWindow names;  // Without the folder.
  };
  Result<void> start();
  Result<void> enter(std::string folder, const std::string& after);
  bool wanted(const std::string& name) const;

  const TreeFiles& files_;
  const ListOptions options_;
  bool started_ = false;
  std::vector<Frame> frames_;
};

}  // namespace penstock::store
