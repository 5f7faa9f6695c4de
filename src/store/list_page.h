// What listings have in common, whatever they list.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/store.h"

namespace penstock::store {

// Under which name a listing shows a key that begins with its prefix: the key itself, or with
// by_folder the folder it is in, which ends with '/'.
std::string_view listed_name(std::string_view key, const ListOptions& options);

inline bool is_folder(std::string_view name) {
  return !name.empty() && name.back() == '/';
}

// The first string after every key in a folder.
std::string after_folder(std::string_view folder);

// Collects one page from names that come in order.
class PageFiller {
 public:
  explicit PageFiller(size_t limit) : limit_(limit) {}
  bool full() const { return page_.objects.size() + page_.folders.size() >= limit_; }
  bool empty() const { return last_.empty(); }
  void add_folder(std::string name);
  void add_object(ObjectInfo info);
  ListPage finish(bool more);

 private:
  const size_t limit_;
  std::string last_;
  ListPage page_;
};

// How many names a NameWindow holds at most when none come any more; tests lower it. At least the
// 1000 of a page.
inline constexpr size_t kNameWindowMax = size_t{128} * 1024;
inline std::atomic<size_t> name_window_max = kNameWindowMax;

// The smallest of many names that come in no order, in bounded memory: those that do not fit are
// dropped from the large end and can be had by going through the names again.
//
// Before the first take() the names lie as they came, up to twice as many as are wanted, and are
// then sorted together: many times faster than keeping them in order. Those that come later, which
// are few, are kept in order apart.
class NameWindow {
 public:
  NameWindow() : names_max_(name_window_max.load()) {}

  void add(std::string_view name);
  // The smallest name inside, which leaves.
  std::optional<std::string> take();
  bool empty() const { return names_.empty() && late_.empty(); }
  // When names were dropped: all that came up to this one are inside (or were taken), later ones
  // may be missing. Certain after the first take().
  const std::optional<std::string>& complete_up_to() const { return complete_up_to_; }
  size_t memory_bytes() const;

 private:
  static constexpr size_t kBytesMax = size_t{16} << 20;  // Room for at least 1000 of the longest.

  void settle();

  size_t names_max_;
  std::vector<std::string>
      names_;  // Once settled the smallest is the last, and each is there once.
  bool settled_ = false;
  std::set<std::string, std::less<>> late_;
  size_t bytes_ = 0;  // Of the names in both.
  std::optional<std::string> complete_up_to_;
};

}  // namespace penstock::store
