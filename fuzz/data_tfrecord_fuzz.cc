// TFRecords from arbitrary bytes, with and without right checksums.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "codec/crc.h"
#include "data/tfrecord.h"
#include "penstock/data.h"

namespace {

using namespace penstock;
using namespace penstock::data;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void parse(std::span<const std::byte> file) {
  std::vector<std::pair<uint64_t, uint64_t>> records;
  TfRecordParser parser([&](uint64_t offset, uint64_t size) -> Result<void> {
    records.emplace_back(offset, size);
    return {};
  });
  while (const auto wanted = parser.wants()) {
    if (wanted->end() > file.size()) {
      if (!parser.end_at(file.size()).ok()) return;
      break;
    }
    if (!parser.take(file.subspan(wanted->offset, wanted->length)).ok()) return;
  }
  uint64_t end = 0;
  for (const auto& [offset, size] : records) {
    require(offset == end && size <= file.size() - offset);
    end += size;
    (void)verify_record(file.subspan(offset, size));
  }
  require(end == file.size());
}

// The bytes as records whose lengths have right checksums.
std::vector<std::byte> seal(std::span<const std::byte> data) {
  std::vector<std::byte> file(data.begin(), data.end());
  for (size_t at = 0; at + 12 <= file.size();) {
    const uint64_t length = std::to_integer<uint64_t>(file[at]);
    std::memcpy(&file[at], &length, 8);
    const uint32_t crc = mask_crc(codec::crc32c(std::span(file).subspan(at, 8)));
    std::memcpy(&file[at + 8], &crc, 4);
    at += length + 16;
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  (void)verify_record(bytes);
  parse(bytes);
  parse(seal(bytes));
  return 0;
}
