#include "checkpoint/piece_copier.h"

#include <algorithm>
#include <cstring>

#include "base/stream_copy.h"

namespace penstock::checkpoint {

Result<void> PieceCopier::copy(const FilePlan& file, const Piece& piece,
                               std::span<std::byte> into) {
  const uint64_t end = piece.offset + piece.bytes;
  auto origin = std::ranges::upper_bound(file.origins, piece.offset, {}, &Origin::end);
  for (; origin != file.origins.end() && origin->begin < end; ++origin) {
    const uint64_t from = std::max(origin->begin, piece.offset);
    const uint64_t to = std::min(origin->end, end);
    std::byte* const target = into.data() + (from - piece.offset);
    const std::byte* const data = origin->data + (from - origin->begin);
    if (origin->device < 0) {
      stream_copy(target, data, to - from);
      continue;
    }
    if (from_devices_ == nullptr) from_devices_ = PENSTOCK_TRY(io::CudaCopies::create());
    PENSTOCK_TRY(from_devices_->to_host(origin->device, data, {target, to - from}));
  }
  std::memset(into.data() + piece.bytes, 0, into.size() - piece.bytes);
  return {};
}

Result<void> PieceCopier::wait() {
  return from_devices_ == nullptr ? Result<void>() : from_devices_->wait();
}

}  // namespace penstock::checkpoint
