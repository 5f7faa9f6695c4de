#include "store/list_page.h"

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

void NameWindow::add(std::string_view name) {
  if (complete_up_to_ && name > *complete_up_to_) return;
  if (!names_.emplace(name).second) return;
  bytes_ += name.size();
  while (names_.size() > names_max_ || bytes_ > bytes_max_) {
    const auto last = std::prev(names_.end());
    bytes_ -= last->size();
    names_.erase(last);
    complete_up_to_ = *names_.rbegin();
  }
}

std::optional<std::string> NameWindow::take() {
  if (names_.empty()) return std::nullopt;
  std::string name = std::move(names_.extract(names_.begin()).value());
  bytes_ -= name.size();
  return name;
}

}  // namespace penstock::store
