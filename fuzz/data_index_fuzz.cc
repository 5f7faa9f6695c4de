// Index files and their blocks from arbitrary bytes: what is taken lies within the shard. Checksums
// keep almost all bytes out, so they also get right ones.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "data/column_index.h"
#include "data/index_file.h"
#include "io/memory_file_system.h"
#include "penstock/frame.h"

namespace {

using namespace penstock;
using namespace penstock::data;

constexpr uint64_t kShardBytes = 100'000;
constexpr size_t kHeaderBytes = 48;
constexpr const char* kPath = "/index";

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void use(const ColumnIndex& index, uint64_t shard_bytes) {
  for (uint32_t i = 0; i < index.samples(); ++i) {
    (void)index.key(i);
    require(!index.members(i).empty());
    for (size_t m = 0; m < index.members(i).size(); ++m) {
      const Member& member = index.members(i)[m];
      require(member.offset + member.size <= shard_bytes);
      (void)index.fields()[member.field];
      (void)index.path(i, m);
    }
  }
}

void parse_as_block(std::span<const std::byte> data) {
  const auto index = ColumnIndex::parse({data.begin(), data.end()}, kShardBytes);
  if (index.ok()) use(**index, kShardBytes);
}

void parse_as_file(const std::string& bytes) {
  io::MemoryFileSystem fs;
  {
    auto file = fs.open(kPath, {.access = io::Access::kWrite, .create = io::Create::kIfMissing});
    require(file.ok() && (*file)->write(0, std::as_bytes(std::span(bytes))).ok());
  }
  const Result<IndexTable> table = read_index_table(fs, kPath);
  if (!table.ok()) return;
  for (const IndexEntry& entry : table->entries) {
    require(table->find(entry.name) == &entry);
    const auto index = read_index(fs, kPath, entry);
    if (index.ok() && entry.compression == Compression::kNone) use(**index, entry.size);
  }
  const auto written =
      write_index_file(fs, kPath, table->folder, {}, [](const IndexEntry&) { return true; });
  require(written.ok() && read_index_table(fs, kPath).ok());
}

std::string seal(std::string bytes) {
  bytes.resize(std::max(bytes.size(), kHeaderBytes));
  const uint32_t version = 1;
  std::memcpy(bytes.data(), "pen-data", 8);
  std::memcpy(&bytes[8], &version, 4);
  std::memset(&bytes[16], 0, 4);
  uint64_t table_bytes = static_cast<uint8_t>(bytes[32]);
  table_bytes = std::min<uint64_t>(table_bytes * 4, bytes.size() - kHeaderBytes);
  std::memcpy(&bytes[32], &table_bytes, 8);
  std::memset(&bytes[40], 0, 8);
  const auto all = std::as_bytes(std::span(bytes));
  const uint64_t sum = codec::hash_bytes(all.subspan(kHeaderBytes, table_bytes),
                                         codec::hash_bytes(all.first(kHeaderBytes)));
  std::memcpy(&bytes[40], &sum, 8);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  parse_as_block(std::as_bytes(std::span(bytes)));
  if (size > 4096) return 0;
  parse_as_file(bytes);
  parse_as_file(seal(bytes));
  return 0;
}
