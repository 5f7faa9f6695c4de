// Logs and states of a cache directory from arbitrary bytes: never a crash, and what is read back
// is what was written.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cache/log_record.h"
#include "cache/member_log.h"
#include "cache/members.h"
#include "cache/state_file.h"
#include "io/memory_file_system.h"
#include "penstock/frame.h"

namespace {

using namespace penstock;
using namespace penstock::cache;

constexpr const char* kFolder = "/members";
constexpr const char* kMember = "1-0123456789abcdef";

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void parse_as_state(std::span<const std::byte> data) {
  const Result<State> state = parse_state(data);
  if (!state.ok()) return;
  const std::string bytes = encode_state(*state);
  const Result<State> again = parse_state(std::as_bytes(std::span(bytes)));
  require(again.ok() && *again == *state);
}

// With the checksum put right, or the fuzzer would never come past it.
void parse_as_sealed_state(std::span<const std::byte> data) {
  constexpr size_t kHeaderBytes = 176;
  constexpr size_t kChecksumAt = 8;
  if (data.size() < kHeaderBytes) return;
  std::vector<std::byte> bytes(data.begin(), data.end());
  std::memcpy(bytes.data(), "PNSTCSTA", 8);
  std::memset(bytes.data() + kChecksumAt, 0, 8);
  const std::span<const std::byte> all = bytes;
  const uint64_t sum =
      codec::hash_bytes(all.subspan(kHeaderBytes), codec::hash_bytes(all.first(kHeaderBytes)));
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof(sum));
  const Result<State> state = parse_state(bytes);
  require(state.ok() || state.error().code == ErrorCode::kUnsupported ||
          state.error().code == ErrorCode::kCorrupt);
  parse_as_state(bytes);
}

void parse_as_record(std::span<const std::byte, kRecordBytes> data) {
  const auto record = parse_record(data);
  if (!record || std::holds_alternative<Unknown>(*record)) return;
  std::string bytes;
  append_record(bytes, *record);
  const auto again = parse_record(std::as_bytes(std::span(bytes)).first<kRecordBytes>());
  require(again == record);
}

// Every 32 bytes as a record, as they are and with a right checksum.
void parse_as_records(std::span<const std::byte> data) {
  for (size_t at = 0; at + kRecordBytes <= data.size(); at += kRecordBytes) {
    const auto bytes = data.subspan(at).first<kRecordBytes>();
    parse_as_record(bytes);
    std::array<std::byte, kRecordBytes> sealed;
    std::ranges::copy(bytes, sealed.begin());
    seal_record(sealed);
    parse_as_record(sealed);
  }
}

void read_as_log(std::span<const std::byte> data) {
  io::MemoryFileSystem fs;
  require(fs.make_directory(kFolder).ok());
  // Good records before and behind: the one is always read, the other when the length is right.
  std::string good;
  append_record(good, Terms{1, 2});
  auto file = fs.open(log_path(kFolder, kMember, 0),
                      {.access = io::Access::kWrite, .create = io::Create::kIfMissing});
  require((*file)->write(0, std::as_bytes(std::span(good))).ok());
  require((*file)->write(good.size(), data).ok());
  require((*file)->write(good.size() + data.size(), std::as_bytes(std::span(good))).ok());
  for (const bool finished : {false, true}) {
    LogReader reader(fs, kFolder, kMember, Nanoseconds(0));
    uint64_t found = 0;
    uint64_t rounds = 0;
    while (true) {
      const auto progress = reader.read({0}, 100, finished, [&](const LogRecord& record) {
        found += record == LogRecord(Terms{1, 2}) ? 1 : 0;
      });
      require(progress.ok());
      if (!progress->more) break;
      require(++rounds <= data.size() / kRecordBytes + 4);
    }
    require(found >= (data.size() % kRecordBytes == 0 ? 2 : 1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  parse_as_state(bytes);
  parse_as_sealed_state(bytes);
  parse_as_records(bytes);
  if (size <= 4096) read_as_log(bytes);
  (void)parse_member_file(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
