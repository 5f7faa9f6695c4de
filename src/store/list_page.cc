#include "store/list_page.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace penstock::store {

std::string_view listed_name(std::string_view key, const ListOptions& options) {
  if (!options.by_folder) return key;
  const size_t slash = key.find('/', options.prefix.size());
  return slash == std::string_view::npos ? key : key.substr(0, slash + 1);
}

std::string after_folder(std::string_view folder) {
  std::string after(folder.substr(0, folder.size() - 1));
  after.push_back('/' + 1);
  return after;
}

void PageFiller::add_folder(std::string name) {
  last_ = name;
  page_.folders.push_back(std::move(name));
}

void PageFiller::add_object(ObjectInfo info) {
  last_ = info.key;
  page_.objects.push_back(std::move(info));
}

ListPage PageFiller::finish(bool more) {
  if (more) page_.next = last_;
  return std::move(page_);
}

// Sorts what came, and drops what is too much.
void NameWindow::settle() {
  std::sort(names_.begin(), names_.end(), std::greater<>());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  bytes_ = 0;
  for (const std::string& name : names_) bytes_ += name.size();
  size_t dropped = 0;
  while (names_.size() - dropped > names_max_ || bytes_ > kBytesMax) {
    bytes_ -= names_[dropped++].size();
  }
  if (dropped == 0) return;
  names_.erase(names_.begin(), names_.begin() + static_cast<ptrdiff_t>(dropped));
  complete_up_to_ = names_.front();
}

void NameWindow::add(std::string_view name) {
  if (complete_up_to_ && name > *complete_up_to_) return;
  if (!settled_) {
    names_.emplace_back(name);
    bytes_ += name.size();
  } else if (late_.emplace(name).second) {
    bytes_ += name.size();
  }
  if (names_.size() + late_.size() <= 2 * names_max_ && bytes_ <= 2 * kBytesMax) return;
  while (!late_.empty()) names_.push_back(std::move(late_.extract(late_.begin()).value()));
  settle();
}

std::optional<std::string> NameWindow::take() {
  if (!std::exchange(settled_, true)) settle();
  if (empty()) return std::nullopt;
  std::string name;
  if (late_.empty() || (!names_.empty() && names_.back() < *late_.begin())) {
    name = std::move(names_.back());
    names_.pop_back();
  } else {
    name = std::move(late_.extract(late_.begin()).value());
    if (!names_.empty() && names_.back() == name) {
      bytes_ -= name.size();
      names_.pop_back();
    }
  }
  bytes_ -= name.size();
  return name;
}

size_t NameWindow::memory_bytes() const {
  constexpr size_t kNodeBytes = 48;  // What a set needs beside each name.
  return bytes_ + names_.capacity() * sizeof(std::string) +
         late_.size() * (sizeof(std::string) + kNodeBytes);
}

}  // namespace penstock::store
