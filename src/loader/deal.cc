#include "loader/deal.h"

#include <fmt/core.h>

namespace penstock::loader {

std::string_view last_name(Last last) {
  switch (last) {
    case Last::kDrop:
      return "drop";
    case Last::kPad:
      return "pad";
    case Last::kExact:
      return "exact";
  }
  return "drop";
}

Result<Last> parse_last(std::string_view name) {
  for (const Last last : {Last::kDrop, Last::kPad, Last::kExact}) {
    if (name == last_name(last)) return last;
  }
  return make_error(ErrorCode::kInvalid, fmt::format("no last '{}': drop, pad or exact", name));
}

Result<void> Deal::check() const {
  const auto refuse = [](std::string detail) {
    return make_error(ErrorCode::kInvalid, std::move(detail));
  };
  if (batch_size == 0) return refuse("batch_size is 0: at least 1");
  if (world_size == 0) return refuse("world_size is 0: at least 1");
  if (rank >= world_size) {
    return refuse(
        fmt::format("rank {} of world_size {}: 0 to {}", rank, world_size, world_size - 1));
  }
  const uint64_t left = begin < positions ? positions - begin : 0;
  if (last == Last::kExact && left % step_positions() != 0) {
    return refuse(
        fmt::format("last='exact': {} samples are no multiple of {} (batch_size {} x world_size "
                    "{}), {} are left "
                    "over; use 'drop' to leave them out or 'pad' to fill up",
                    left, step_positions(), batch_size, world_size, left % step_positions()));
  }
  return {};
}

uint64_t Deal::steps() const {
  const uint64_t left = begin < positions ? positions - begin : 0;
  const uint64_t whole = left / step_positions();
  const bool more = last == Last::kPad && left % step_positions() != 0;
  return whole + (more ? 1 : 0);
}

Deal::Taken Deal::take(uint64_t step, uint32_t slot) const {
  const uint64_t first = begin + step * step_positions();
  // The first of the step that is this rank's.
  const uint64_t skip = (rank + world_size - first % world_size) % world_size;
  const uint64_t position = first + skip + uint64_t{slot} * world_size;
  if (position < positions) return {position, false};
  return {(position - positions) % positions, true};
}

}  // namespace penstock::loader
