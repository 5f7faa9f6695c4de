// What listings have in common, whatever they list.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

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

// The smallest of many names that come in no order, in bounded memory: those that do not fit are
// dropped from the large end and can be had by going through the names again.
class NameWindow {
 public:
  explicit NameWindow(size_t names_max = size_t{64} * 1024, size_t bytes_max = size_t{16} << 20)
      : names_max_(names_max), bytes_max_(bytes_max) {}

  void add(std::string_view name);
  // The smallest name inside, which leaves.
  std::optional<std::string> take();
  bool empty() const { return names_.empty(); }
  // When names were dropped: all that came up to this one are inside (or were taken), later ones
  // may be missing.
  const std::optional<std::string>& complete_up_to() const { return complete_up_to_; }

 private:
  const size_t names_max_;
  const size_t bytes_max_;
  std::set<std::string, std::less<>> names_;
  size_t bytes_ = 0;
  std::optional<std::string> complete_up_to_;
};

}  // namespace penstock::store
