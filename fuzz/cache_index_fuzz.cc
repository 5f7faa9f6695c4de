// The index of a cache from arbitrary bytes. The checksum keeps almost all of them out, so the same
// bytes are also given a right header and checksum. What is taken must be fit for use.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "cache/policy.h"
#include "penstock/frame.h"
#include "penstock/units.h"

namespace {

using namespace penstock;
using namespace penstock::cache;

constexpr size_t kFrontBytes = 48 + 2048;  // Header and histogram.
constexpr size_t kEntryBytes = 48;
constexpr size_t kGhostBytes = 20;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void put(std::string& bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

// The same bytes as so many entries, and ghosts behind them.
std::string forge(std::string bytes) {
  bytes.resize(std::max(bytes.size(), kFrontBytes));
  const size_t left = bytes.size() - kFrontBytes;
  const size_t entries = left / kEntryBytes * (bytes[15] & 3) / 3;
  const size_t ghosts = (left - entries * kEntryBytes) / kGhostBytes;
  bytes.resize(kFrontBytes + entries * kEntryBytes + ghosts * kGhostBytes);
  put(bytes, 0, 0x78646e692d6e6570);
  put(bytes, 8, 1);
  put(bytes, 16, entries);
  put(bytes, 24, ghosts);
  const uint64_t sum = codec::hash_bytes(std::as_bytes(std::span(bytes)));
  bytes.resize(bytes.size() + 8);
  put(bytes, bytes.size() - 8, sum);
  return bytes;
}

void use(Policy& policy) {
  policy.set_capacity(kGiB);
  for (int i = 0; i < 20; ++i) {
    policy.missed({1, 2}, kGiB);
    policy.invited();
    const auto name = policy.victim(static_cast<Policy::Need>(i % 3));
    if (!name) continue;
    require(policy.contains(name->id));
    policy.used(name->id, 1);
    policy.removed(name->id);
    require(!policy.contains(name->id));
  }
}

void restore(const std::string& bytes) {
  const std::unique_ptr<Policy> policy = make_policy();
  if (!restore_from(*policy, bytes).ok()) {
    require(policy->entries() == 0 && policy->clock_bytes() == 0);
    return;
  }
  const std::string snapshot = snapshot_of(*policy);
  const std::unique_ptr<Policy> again = make_policy();
  require(restore_from(*again, snapshot).ok());
  require(snapshot_of(*again) == snapshot);
  use(*policy);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  restore(bytes);
  restore(forge(bytes));
  return 0;
}
