#include "volume/content_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/waiting.h"

namespace penstock::volume {

namespace {

// One request to the store asks for at most so much, where it lies together: 4 MiB of content with the
// headers of its frames, so that what is read ahead, a multiple of that, leaves no small rest.
constexpr uint64_t kLoadBytesMax = 4 * kMiB + 64 * kKiB;
constexpr size_t kQueuedLoadsMax = 256;

// The part of an extent that lies in [begin, end) of the file.
struct Overlap {
  uint64_t begin = 0;  // In the file.
  uint64_t end = 0;
  uint64_t chunk_begin = 0;
};

Overlap overlap_of(const meta::Extent& extent, uint64_t begin, uint64_t end) {
  Overlap overlap{std::max(begin, extent.offset), std::min(end, extent.offset + extent.length), 0};
  overlap.chunk_begin = extent.chunk_offset + (overlap.begin - extent.offset);
  return overlap;
}

bool holds_bytes(const meta::Extent& extent) {
  return extent.chunk != meta::kZeros;
}

// Neighbours in memory become one: a reply has only so many.
void add_piece(Pieces& pieces, std::span<const std::byte> piece) {
  pieces.bytes += piece.size();
  if (!pieces.spans.empty() &&
      pieces.spans.back().data() + pieces.spans.back().size() == piece.data()) {
    pieces.spans.back() = {pieces.spans.back().data(), pieces.spans.back().size() + piece.size()};
  } else {
    pieces.spans.push_back(piece);
  }
}

Error cut_short(const std::string& key, uint64_t offset, size_t wanted, size_t got) {
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("object '{}' ends too early: {} bytes at {}, of {}", key, got, offset, wanted));
}

}  // namespace

ContentReader::ContentReader(Journal& journal, store::ObjectStore& store, FrameCache& frames,
                             const ReaderOptions& options)
    : journal_(journal),
      store_(store),
      frames_(frames),
      options_(options),
      loads_(static_cast<ptrdiff_t>(options.loads_max)),
      pool_("volume-load", options.threads, kQueuedLoadsMax) {}

void copy_pieces(const Pieces& pieces, std::span<std::byte> into) {
  for (const std::span<const std::byte> piece : pieces.spans) {
    if (piece.data() != into.data()) std::memcpy(into.data(), piece.data(), piece.size());
    into = into.subspan(piece.size());
  }
}

Result<void> ContentReader::read(std::span<const meta::Extent> extents, uint64_t offset,
                                 std::span<std::byte> into) {
  copy_pieces(PENSTOCK_TRY(find(extents, offset, into)), into);
  return {};
}

Result<Pieces> ContentReader::find(std::span<const meta::Extent> extents, uint64_t offset,
                                   std::span<std::byte> scratch) {
  PENSTOCK_TRY(start(plan(extents, offset, scratch.size(), /*ahead=*/false), /*one_here=*/true));
  Pieces pieces;
  const uint64_t end = offset + scratch.size();
  // [begin, end) of the file, in the scratch.
  const auto place_for = [&](uint64_t begin, uint64_t until) {
    const std::span<std::byte> there = scratch.subspan(begin - offset, until - begin);
    add_piece(pieces, there);
    return there;
  };
  uint64_t at = offset;
  for (const meta::Extent& extent : extents) {
    const Overlap part = overlap_of(extent, at, end);
    if (part.begin >= part.end) continue;
    if (at < part.begin) std::ranges::fill(place_for(at, part.begin), std::byte{0});
    if (!holds_bytes(extent)) {
      std::ranges::fill(place_for(part.begin, part.end), std::byte{0});
    } else if (is_journal(extent.place.object)) {
      const std::span<std::byte> there = place_for(part.begin, part.end);
      PENSTOCK_TRY(read_journal(extent.place, part.chunk_begin, there));
    } else {
      PENSTOCK_TRY(add_frames(pieces, extent, part.chunk_begin, part.end - part.begin, scratch));
    }
    at = part.end;
  }
  if (at < end) std::ranges::fill(place_for(at, end), std::byte{0});
  return pieces;
}

void ContentReader::prefetch(std::span<const meta::Extent> extents, uint64_t offset,
                             uint64_t length) {
  (void)start(plan(extents, offset, length, /*ahead=*/true), /*one_here=*/false);
}

Result<void> ContentReader::add_frames(Pieces& pieces, const meta::Extent& extent, uint64_t begin,
                                       uint64_t length, std::span<std::byte> scratch) {
  while (length > 0) {
    const auto index = static_cast<uint32_t>(begin / kFrameBytes);
    FrameRef held = frames_.find({extent.place.object, extent.place.offset, index});
    if (held == nullptr) {
      // Whoever waits holds nothing: what it has is copied after all.
      copy_pieces(pieces, scratch);
      pieces.owners.clear();
      pieces.spans.clear();
      if (pieces.bytes > 0) pieces.spans.push_back(scratch.first(pieces.bytes));
      held = PENSTOCK_TRY(frame(extent.place, index));
    }
    const uint64_t skipped = begin - uint64_t{index} * kFrameBytes;
    const size_t taken = std::min<uint64_t>(held->size - skipped, length);
    add_piece(pieces, held->bytes().subspan(skipped, taken));
    pieces.owners.push_back(std::move(held));
    length -= taken;
    begin += taken;
  }
  return {};
}

Result<FrameRef> ContentReader::frame(const meta::Place& place, uint32_t index) {
  const FrameKey key{place.object, place.offset, index};
  while (true) {
    if (std::optional<Result<FrameRef>> held = frames_.wait(key)) return std::move(*held);
    // It was given up again before it could be used, or could not be loaded; then that fails here.
    const meta::Extent extent{.offset = 0, .length = place.raw, .chunk = 1, .place = place};
    PENSTOCK_TRY(
        start(plan(std::span(&extent, 1), uint64_t{index} * kFrameBytes, 1, /*ahead=*/false),
              /*one_here=*/true));
  }
}

Result<void> ContentReader::read_journal(const meta::Place& place, uint64_t begin,
                                         std::span<std::byte> into) {
  const JournalPlace record{.sequence = place.checksum,
                            .segment = place.object.number,
                            .offset = place.offset,
                            .bytes = static_cast<uint32_t>(place.stored)};
  return journal_.read(record, begin, into);
}

Result<void> ContentReader::read_chunk(const meta::Place& place, std::span<std::byte> into) {
  if (is_journal(place.object)) return read_journal(place, 0, into);
  std::vector<std::byte> stored(place.stored);
  PENSTOCK_TRY(get(place.object, place.offset, stored, /*past_cache=*/false));
  const Result<uint64_t> checksum = chunk_checksum(stored);
  if (!checksum.ok() || *checksum != place.checksum) return damaged(place.object, place.offset);
  const Result<void> decoded = codec::decode_frames(
      stored, into, frame_identity(options_.space, place.object, place.offset, 0));
  if (!decoded.ok() && decoded.error().code == ErrorCode::kCorrupt) {
    return damaged(place.object, place.offset);
  }
  return decoded;
}

std::vector<ContentReader::Load> ContentReader::plan(std::span<const meta::Extent> extents,
                                                     uint64_t offset, uint64_t length, bool ahead) {
  std::vector<Load> loads;
  std::vector<FrameKey> keys;
  for (const meta::Extent& extent : extents) {
    const Overlap part = overlap_of(extent, offset, offset + length);
    if (part.begin >= part.end || !holds_bytes(extent) || is_journal(extent.place.object)) continue;
    const auto first = static_cast<uint32_t>(part.chunk_begin / kFrameBytes);
    const auto last =
        static_cast<uint32_t>((part.chunk_begin + (part.end - part.begin) - 1) / kFrameBytes);
    keys.clear();
    for (uint32_t i = first; i <= last; ++i) {
      keys.push_back({extent.place.object, extent.place.offset, i});
    }
    std::vector<FrameKey> claimed = frames_.claim(keys, ahead);
    if (claimed.empty()) continue;
    if (!frames_are_even(extent.place)) {
      add_part(loads, {extent.place, 0, frames_of(extent.place)}, std::move(claimed));
      continue;
    }
    for (const FrameKey& key : claimed) add_part(loads, {extent.place, key.index, 1}, {key});
  }
  return loads;
}

void ContentReader::add_part(std::vector<Load>& loads, const Load::Part& part,
                             std::vector<FrameKey> claimed) {
  const bool even = frames_are_even(part.place);
  const FrameRange range =
      even ? frame_range(part.place, part.first) : FrameRange{0, part.place.stored};
  const uint64_t begin = part.place.offset + range.offset;
  Load* const last = loads.empty() ? nullptr : &loads.back();
  const bool joins = last != nullptr && last->object == part.place.object &&
                     last->offset + last->length == begin &&
                     last->length + range.length <= kLoadBytesMax;
  Load& load = joins ? *last : loads.emplace_back(Load{part.place.object, begin, 0, {}, {}});
  load.length += range.length;
  load.parts.push_back(part);
  load.claimed.insert(load.claimed.end(), claimed.begin(), claimed.end());
}

Result<void> ContentReader::start(std::vector<Load> loads, bool one_here) {
  for (size_t i = one_here ? 1 : 0; i < loads.size(); ++i) {
    const auto load = std::make_shared<Load>(std::move(loads[i]));
    ThreadPool::Task task = [this, load] { (void)run(*load); };
    if (!pool_.try_submit(task)) task();
  }
  return one_here && !loads.empty() ? run(loads.front()) : Result<void>();
}

Result<void> ContentReader::run(const Load& load) {
  {
    const WaitingFor wait("its turn to read from the store");
    loads_.acquire();
  }
  std::vector<FrameKey> missing = load.claimed;
  Result<void> loaded = load_frames(load, /*past_cache=*/false, missing);
  // Were they damaged on the way, or where they come from?
  if (!loaded.ok() && loaded.error().code == ErrorCode::kCorrupt) {
    loaded = load_frames(load, /*past_cache=*/true, missing);
  }
  loads_.release();
  if (loaded.ok()) return loaded;
  for (const FrameKey& key : missing) frames_.fail(key, loaded.error());
  return loaded;
}

// Takes those that it loaded out of `missing`.
Result<void> ContentReader::load_frames(const Load& load, bool past_cache,
                                        std::vector<FrameKey>& missing) {
  // Large ones all of one size, so that memory that is given back suits the next.
  const uint64_t taken = load.length > kMiB ? std::max(load.length, kLoadBytesMax) : load.length;
  const auto memory = std::make_shared<const io::Buffer>(PENSTOCK_TRY(frames_.take(taken)));
  PENSTOCK_TRY(get(load.object, load.offset, memory->bytes().first(load.length), past_cache));
  std::span<const std::byte> rest = memory->bytes().first(load.length);
  for (const Load::Part& part : load.parts) {
    for (uint32_t index = part.first; index < part.first + part.count; ++index) {
      const codec::FrameHeader header = PENSTOCK_TRY(codec::read_frame_header(rest));
      if (header.frame_bytes() > rest.size()) return damaged(load.object, part.place.offset);
      const FrameKey key{load.object, part.place.offset, index};
      if (const auto wanted = std::ranges::find(missing, key); wanted != missing.end()) {
        PENSTOCK_TRY(decode(load, part, index, rest, memory));
        missing.erase(wanted);
      }
      rest = rest.subspan(header.frame_bytes());
    }
  }
  return {};
}

Result<void> ContentReader::decode(const Load& load, const Load::Part& part, uint32_t index,
                                   std::span<const std::byte> stored,
                                   const std::shared_ptr<const io::Buffer>& memory) {
  auto frame = std::make_shared<Frame>();
  frame->size = frame_raw_bytes(part.place, index);
  const codec::FrameIdentity identity =
      frame_identity(options_.space, load.object, part.place.offset, index);
  const codec::FrameHeader header = PENSTOCK_TRY(codec::read_frame_header(stored));
  Result<codec::FrameHeader> decoded = header;
  if (header.codec == codec::Codec::kNone) {
    // It stays where it is.
    decoded = codec::verify_frame(stored, identity);
    frame->memory = memory;
    frame->offset = static_cast<size_t>(stored.data() - memory->data()) + codec::kFrameHeaderBytes;
  } else {
    frame->memory = std::make_shared<const io::Buffer>(PENSTOCK_TRY(frames_.take(frame->size)));
    decoded = codec::decode_frame(stored, frame->memory->bytes().first(frame->size), identity);
  }
  // One of another length is as wrong as one that is damaged, be it undamaged.
  const bool right = decoded.ok() && decoded->raw_bytes == frame->size;
  if (!decoded.ok() && decoded.error().code != ErrorCode::kCorrupt) return decoded.error();
  if (!right) return damaged(load.object, part.place.offset);
  frames_.put({load.object, part.place.offset, index}, std::move(frame));
  return {};
}

Error ContentReader::damaged(meta::ObjectId object, uint64_t offset) const {
  metrics_.verification_failures.add();
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format(
          "object '{}' of {} is damaged: its chunk at {} is not what it should be (penstock "
          "volume fsck names the files)",
          object_key(options_.space, object), store_.description(), offset));
}

Result<void> ContentReader::get(meta::ObjectId object, uint64_t offset, std::span<std::byte> into,
                                bool past_cache) {
  const std::string key = object_key(options_.space, object);
  const WaitingFor wait("an answer of the store");
  store::GetOptions options;
  options.deadline = deadline_in(options_.io_timeout);
  options.bypass_cache = past_cache;
  const auto begun = std::chrono::steady_clock::now();
  const Result<store::GetResult> got = store_.get(key, offset, into, options);
  if (!got.ok()) return get_failed(got.error(), key);
  metrics_.load_seconds.record(std::chrono::steady_clock::now() - begun);
  metrics_.load_bytes.add(got->bytes);
  if (got->bytes == into.size()) return {};
  metrics_.verification_failures.add();
  return cut_short(key, offset, into.size(), got->bytes);
}

// With the name of the object: what some stores say does not tell what was asked for.
Error ContentReader::get_failed(const Error& error, const std::string& key) {
  metrics_.load_failures.add();
  if (error.detail.find(key) != std::string::npos) return error;
  return error.with_context(fmt::format("object '{}' of {}", key, store_.description()));
}

}  // namespace penstock::volume
