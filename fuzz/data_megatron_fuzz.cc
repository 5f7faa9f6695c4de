// The index of a Megatron dataset from arbitrary bytes: no sequence is outside of the tokens.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "data/megatron.h"

namespace {

using namespace penstock;
using namespace penstock::data;

constexpr uint64_t kBinBytes = 4096;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void load(std::span<const std::byte> idx) {
  const auto index = TokenIndex::load(
      idx.size(), kBinBytes, [&](uint64_t offset, std::span<std::byte> into) -> Result<void> {
        require(offset <= idx.size() && into.size() <= idx.size() - offset);
        std::memcpy(into.data(), idx.data() + offset, into.size());
        return {};
      });
  if (!index.ok()) return;
  for (uint64_t i = 0; i < index->sequences(); ++i) {
    require(index->offset(i) + index->length(i) * token_bytes(index->type()) <= kBinBytes);
  }
  for (uint64_t i = 0; i < index->documents(); ++i) {
    require(index->document_begin(i) <= index->document_begin(i + 1));
    require(index->document_begin(i + 1) <= index->sequences());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  load(bytes);
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  if (sealed.size() < 34) return 0;
  std::memcpy(sealed.data(), "MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
  load(sealed);
  return 0;
}
