#include "cache/allowance.h"

#include <algorithm>

namespace penstock::cache {

void Allowance::adopt(Grant grant) {
  grant_ = std::move(grant);
  granted_ = left_below(grant_.ceiling);
  const double all =
      static_cast<double>(grant_.open_bytes) + static_cast<double>(grant_.invited_bytes);
  const double share = all > 0 ? static_cast<double>(grant_.invited_bytes) / all : 0;
  const auto for_invited =
      std::min(granted_, static_cast<uint64_t>(static_cast<double>(granted_) * share));
  open_ceiling_ = grant_.ceiling - for_invited;
}

bool Allowance::reserve(const EntryName& name) {
  const uint64_t bytes = name.file_bytes();
  const bool invited = std::ranges::binary_search(grant_.invited, name.id);
  if (bytes > left_below(invited ? grant_.ceiling : open_ceiling_)) return false;
  reserved_ += bytes;
  // Theirs is taken first, which leaves the open room as it was.
  if (invited) open_ceiling_ = std::min(open_ceiling_ + bytes, grant_.ceiling);
  return true;
}

void Allowance::cancelled(const EntryName& name) {
  reserved_ -= std::min(reserved_, name.file_bytes());
}

void Allowance::added(const EntryName& name) {
  cancelled(name);
  published_ += name.file_bytes();
}

Standing Allowance::standing() const {
  return {.published_bytes = published_,
          .reserved_blocks = static_cast<uint32_t>(reserved_ / kBlockBytes),
          .adopted = grant_.counter,
          .ceiling_bytes = grant_.ceiling};
}

}  // namespace penstock::cache
