#include "data/scan.h"

#include <algorithm>

#include "data/sequential_reader.h"
#include "data/sidecar.h"
#include "data/staged_file.h"
#include "data/tar.h"
#include "data/tfrecord.h"
#include "data/window_reader.h"

namespace penstock::data {

namespace {

std::unique_ptr<ShardParser> make_parser(Format format, IndexBuilder& builder) {
  if (format == Format::kTfRecord) {
    return std::make_unique<TfRecordParser>(
        [&builder](uint64_t offset, uint64_t size) { return builder.add_record(offset, size); });
  }
  return std::make_unique<TarParser>([&builder](const TarMember& member) {
    return builder.add_named(member.name, member.offset, member.size);
  });
}

Result<Compression> compression_of(WindowReader& reader, Format format) {
  const size_t bytes = std::min<uint64_t>(reader.size(), kRecordFrontBytes);
  const std::span<const std::byte> first = PENSTOCK_TRY(reader.at(0, bytes));
  // The length of a record may look like anything.
  const bool is_record =
      format == Format::kTfRecord && bytes == kRecordFrontBytes && record_length(first).has_value();
  return is_record ? Compression::kNone : detect_compression(first);
}

Result<Block> scan_bytes(WindowReader& reader, Format format, Compression compression) {
  IndexBuilder builder;
  const std::unique_ptr<ShardParser> parser = make_parser(format, builder);
  if (compression == Compression::kNone) {
    PENSTOCK_TRY(parse_in_place(*parser, reader));
  } else {
    const auto stream = PENSTOCK_TRY(make_sequential_reader(reader, compression));
    PENSTOCK_TRY(parse_in_order(*parser, *stream));
  }
  return builder.finish();
}

}  // namespace

Result<void> parse_in_place(ShardParser& parser, WindowReader& reader) {
  while (const auto wanted = parser.wants()) {
    if (wanted->end() > reader.size()) return parser.end_at(reader.size());
    const auto bytes = PENSTOCK_TRY(reader.at(wanted->offset, wanted->length));
    PENSTOCK_TRY(parser.take(bytes));
  }
  return {};
}

Result<void> parse_in_order(ShardParser& parser, SequentialReader& reader) {
  std::vector<std::byte> bytes;
  while (const auto wanted = parser.wants()) {
    const uint64_t gap = wanted->offset - reader.offset();
    if (PENSTOCK_TRY(reader.skip(gap)) < gap) return parser.end_at(reader.offset());
    bytes.resize(wanted->length);
    if (PENSTOCK_TRY(reader.read(bytes)) < bytes.size()) return parser.end_at(reader.offset());
    PENSTOCK_TRY(parser.take(bytes));
  }
  return {};
}

Result<ScannedShard> scan_shard(const Source& source, const store::ObjectInfo& object,
                                Format format, const std::stop_token& cancel,
                                std::atomic<uint64_t>* progress) {
  std::unique_ptr<ShardFile> file =
      PENSTOCK_TRY(open_shard_file(source, object, io::CacheMode::kBuffered, cancel));
  if (source.cached != nullptr) {
    file = make_staged_file(std::move(file), *source.cached, object, cancel);
  }
  WindowReader reader(*file, cancel, progress);
  const auto scan = [&]() -> Result<ScannedShard> {
    const Compression compression = PENSTOCK_TRY(compression_of(reader, format));
    std::optional<Block> block;
    if (compression == Compression::kNone) {
      block = index_from_sidecar(source, object, format, *file, cancel);
    }
    if (!block) block = PENSTOCK_TRY(scan_bytes(reader, format, compression));
    const uint64_t bytes = compression == Compression::kNone ? object.size : kShardBytesMax;
    return ScannedShard{PENSTOCK_TRY(ColumnIndex::parse(std::move(*block), bytes)), compression};
  };
  Result<ScannedShard> scanned = scan();
  reader.finish();
  if (scanned.ok()) return scanned;
  const bool named = scanned.error().detail.find(file->name()) != std::string::npos;
  return named ? scanned.error() : scanned.error().with_context(file->name());
}

}  // namespace penstock::data
