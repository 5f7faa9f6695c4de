// The indexes of other tools from arbitrary bytes: what is taken lies within the shard.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/sidecar.h"

namespace {

using namespace penstock;
using namespace penstock::data;

constexpr uint64_t kShardBytes = 100'000;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Result<std::vector<SidecarMember>>& members) {
  if (!members.ok()) return;
  uint64_t end = 0;
  for (const SidecarMember& member : *members) {
    require(member.offset >= end && member.size <= kShardBytes - member.offset);
    end = member.offset + member.size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(parse_wds2idx(text, kShardBytes));
  check(parse_tfrecord2idx(text, kShardBytes));
  (void)parse_wids(text);
  return 0;
}
