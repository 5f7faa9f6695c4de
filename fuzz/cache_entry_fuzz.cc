// Headers of cache entries, names and markers from arbitrary bytes. The checksums keep almost all
// headers from being looked into, so the same bytes are also given right ones.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cache/directory_open.h"
#include "cache/directory_sweep.h"
#include "cache/entry.h"
#include "cache/entry_header.h"
#include "codec/guarded_memory.h"

namespace {

using namespace penstock;
using namespace penstock::cache;
using Bytes = std::vector<std::byte>;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

// Reads a header that ends where nothing can be read any more.
void read_guarded(std::span<const std::byte> bytes) {
  static codec::GuardedMemory memory(2 * kHeaderBytesMax);
  const auto header = memory.hold(bytes.first(std::min<size_t>(bytes.size(), 2 * kHeaderBytesMax)));
  BlockSums sums;
  const Result<EntryKey> key = identify_header(header, &sums);
  if (!key.ok()) {
    require(key.error().code == ErrorCode::kCorrupt || key.error().code == ErrorCode::kUnsupported);
    return;
  }
  // Who it says it is could have been written, and is found again under that name.
  require(can_be_entry(*key));
  require(sums.blocks() == data_blocks(key->length));
  require(header_bytes(*key) <= std::min<size_t>(header.size(), kHeaderBytesMax));
  require(name_of(*key).blocks <= kEntryBlocksMax);
  require(read_header(header.first(header_bytes(*key)), *key).ok());
  EntryKey other = *key;
  other.version.size ^= 1;
  require(read_header(header, other).error().code == ErrorCode::kNotFound);
}

// The input is a header but for the magic and the checksums, and zeros behind it. With the first
// byte even, the fields that must agree with others do.
void read_repaired(std::span<const std::byte> data) {
  if (data.size() < 1 + kFieldsBytes || data.size() > kHeaderBytesMax) return;
  const auto bytes = data.subspan(1);
  HeaderFields fields;
  std::memcpy(&fields, bytes.data(), kFieldsBytes);
  std::memcpy(fields.magic, "PSCE", 4);
  if (std::to_integer<int>(data[0]) % 2 == 0) {
    fields.version = kEntryVersion;
    fields.incompatible = 0;
    fields.url_bytes %= kUrlBytesMax + 1;
    fields.etag_bytes %= kEtagBytesMax + 1;
    fields.length = fields.length % kEntryLengthMax + 1;
    fields.offset -= fields.offset % kBlockBytes;
    fields.header_bytes = static_cast<uint32_t>(
        header_bytes_for(fields.url_bytes, fields.etag_bytes, data_blocks(fields.length)));
  }
  Bytes header(kHeaderBytesMax);
  std::ranges::copy(bytes, header.begin());
  std::memcpy(header.data(), &fields, kFieldsBytes);
  seal_header(header);
  read_guarded(header);
}

// The input is a bit to flip, the lengths of the names, the names, and data.
void round_trip(std::span<const std::byte> data) {
  if (data.size() < 8 || data.size() > 32 * 1024) return;
  const auto number = [&](size_t at) { return std::to_integer<size_t>(data[at]); };
  const auto text = [&](size_t at, size_t size) {
    const auto part = data.subspan(at, std::min(size, data.size() - 1 - at));
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  };
  EntryKey key{{text(7, number(3)), text(7, number(4)), UINT64_MAX}, number(5) * kBlockBytes, 0};
  const auto rest = data.subspan(std::min(7 + number(3), data.size() - 1));
  key.length = static_cast<uint32_t>(rest.size());
  require(can_be_entry(key));
  Bytes file(file_bytes(key));
  std::ranges::copy(rest, file.begin() + header_bytes(key));
  seal_entry(file, key);
  const auto header = std::span(file).first(header_bytes(key));
  const auto blocks = std::span(file).subspan(header_bytes(key));
  const Result<BlockSums> sums = read_header(header, key);
  require(sums.ok() && sums->verify(0, blocks));
  require(std::ranges::equal(blocks.first(key.length), rest));
  require(*identify_header(file) == key);

  const size_t bit = (number(0) << 16 | number(1) << 8 | number(2)) % (file.size() * 8);
  file[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  if (bit / 8 < header.size()) {
    require(read_header(header, key).error().code == ErrorCode::kCorrupt);
  } else {
    require(!sums->verify(0, blocks));
  }
}

void parse_text(std::span<const std::byte> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  if (const auto name = EntryName::parse(text)) require(name->text() == text);
  if (const auto member = member_of_temporary(text)) require(text.starts_with(*member + "-"));
  if (const auto member = member_of_log(text)) require(text.starts_with(*member + "."));
  if (const auto member = member_of_lock(text)) require(text == *member + ".lock");
  const Result<void> marker = check_marker(text, "FILE");
  require(!marker.ok() || text.starts_with("penstock cache\n"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  read_guarded(bytes);
  read_repaired(bytes);
  round_trip(bytes);
  parse_text(bytes);
  return 0;
}
