// The listings of a tree store between their pages: so that a directory of a million files is not
// read anew for each thousand of them, not even while the same store puts files into it.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "penstock/store.h"
#include "store/tree_files.h"

namespace penstock::store {

// One listing, page after page. What changes in a directory after it was read is seen or not.
// Threads: one at a time.
class TreeCursor {
 public:
  // `files` outlives it.
  TreeCursor(const TreeFiles& files, const ListOptions& options);

  // Limit, deadline and cancellation are those of `options`; all else is as when it was made. After
  // an error it is of no use any more.
  Result<ListPage> next_page(const ListOptions& options);

  // Whether the page asked for with `options` is the next one.
  bool continues(const ListOptions& options) const;
  size_t memory_bytes() const { return walk_.memory_bytes(); }

 private:
  Result<void> advance();
  Result<bool> in_tree(std::string_view folder);

  const TreeFiles& files_;
  const std::string prefix_;
  const bool by_folder_;
  TreeWalk walk_;
  bool started_ = false;
  std::string position_;             // The last name shown.
  std::optional<std::string> next_;  // The one after that, and what is there
  ObjectInfo next_info_;             // if it is an object.
  // The folder that was last looked at during this page, and whether it is in the tree. It may be
  // replaced by a link between two pages.
  std::optional<std::string> folder_;
  bool folder_in_tree_ = false;
};

// Those cursors that wait for the next page to be asked for.
// Threads: all calls from any thread.
class TreeCursors {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr size_t kCursorsMax = 32;
  static constexpr std::chrono::seconds kLifetime{5};    // Unused.
  static constexpr size_t kBytesMax = size_t{64} << 20;  // All together, but the last is kept.

  explicit TreeCursors(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  // The cursor that continues with `options`, or null.
  std::unique_ptr<TreeCursor> take(const ListOptions& options, Time now);
  void keep(std::unique_ptr<TreeCursor> cursor, Time now);

 private:
  struct Kept {
    std::unique_ptr<TreeCursor> cursor;
    Time since;
    size_t bytes = 0;
  };
  using List = std::list<Kept>;
  // Moves those that are too old or too many to `dropped`: they are destroyed without the lock.
  void drop_some(Time now, List& dropped);

  const size_t bytes_max_;
  std::mutex mutex_;
  List kept_;  // The one kept last is the first.
  size_t bytes_ = 0;
};

}  // namespace penstock::store
