// A tar from arbitrary bytes: no file is found outside of it. The checksum of a header keeps almost
// all bytes out, so they also get a right one.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "data/column_index.h"
#include "data/tar.h"

namespace {

using namespace penstock;
using namespace penstock::data;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void parse(std::span<const std::byte> tar) {
  IndexBuilder builder;
  bool is_named_well = true;
  TarParser parser([&](const TarMember& member) -> Result<void> {
    require(member.offset % kTarBlockBytes == 0);
    const Result<void> added = builder.add_named(member.name, member.offset, member.size);
    is_named_well = is_named_well && added.ok();
    return added;
  });
  uint64_t last = 0;
  while (const auto wanted = parser.wants()) {
    require(wanted->offset >= last && wanted->length > 0 && wanted->length <= 1 << 20);
    last = wanted->end();
    if (last > tar.size()) {
      if (!parser.end_at(tar.size()).ok()) return;
      break;
    }
    if (!parser.take(tar.subspan(wanted->offset, wanted->length)).ok()) return;
  }
  require(is_named_well);
  require(ColumnIndex::parse(builder.finish(), tar.size()).ok());
}

// Gives every block that is not zero, and has a 'u' where its magic begins, a right checksum.
std::vector<std::byte> seal(std::span<const std::byte> data) {
  std::vector<std::byte> tar(data.begin(), data.end());
  tar.resize((tar.size() + 511) / 512 * 512);
  for (size_t at = 0; at < tar.size(); at += 512) {
    if (tar[at + 257] != std::byte{'u'}) continue;
    std::memset(&tar[at + 148], ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += std::to_integer<unsigned>(tar[at + i]);
    for (int digit = 5; digit >= 0; --digit, sum /= 8)
      tar[at + 148 + static_cast<size_t>(digit)] = static_cast<std::byte>('0' + sum % 8);
    tar[at + 154] = std::byte{0};
  }
  return tar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  parse(bytes);
  parse(seal(bytes));
  return 0;
}
