// Names, each once. Made for tens of thousands that are added in one go: it allocates seldom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace penstock::checkpoint {

// What names point to outlives it.
class NameSet {
 public:
  // False where it is there already.
  bool insert(std::string_view name) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    std::string_view& slot = find(name);
    if (slot.data() != nullptr) return false;
    slot = name;
    ++count_;
    return true;
  }

 private:
  std::string_view& find(std::string_view name) {
    size_t at = std::hash<std::string_view>()(name) % slots_.size();
    while (slots_[at].data() != nullptr && slots_[at] != name) at = (at + 1) % slots_.size();
    return slots_[at];
  }
  void grow() {
    std::vector<std::string_view> before(slots_.empty() ? 1024 : 4 * slots_.size());
    before.swap(slots_);
    for (const std::string_view name : before) {
      if (name.data() != nullptr) find(name) = name;
    }
  }

  std::vector<std::string_view> slots_;  // With no data: free.
  size_t count_ = 0;
};

}  // namespace penstock::checkpoint
