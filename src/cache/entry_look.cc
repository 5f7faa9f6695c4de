#include "cache/entry_look.h"

#include <fmt/core.h>

#include <array>

#include "base/thread_pool.h"
#include "cache/entry_header.h"

namespace penstock::cache {

namespace {

// Holds the header of a window of 4 MiB, so that one read tells.
constexpr size_t kFirstRead = 16 * 1024;

Error corrupt_entry(std::string why) {
  return make_error(ErrorCode::kCorrupt, std::move(why));
}

Result<void> check_name(const EntryKey& key, const EntryName& name) {
  if (name_of(key) == name) return {};
  return corrupt_entry(fmt::format("it is the entry {}, under another name", name_of(key).text()));
}

}  // namespace

Result<EntryKey> identify_entry(CacheDirectory& directory, const EntryName& name) {
  alignas(kBlockBytes) std::array<std::byte, kHeaderBytesMax> memory;
  const std::span<std::byte> header(memory);
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(directory.open_entry(name));
  size_t count = PENSTOCK_TRY(file->read(0, header.first(kFirstRead)));
  const HeaderFields fields = PENSTOCK_TRY(read_fields(header.first(count)));
  if (fields.header_bytes > count && count == kFirstRead) {
    count = PENSTOCK_TRY(file->read(0, header));
  }
  EntryKey key = PENSTOCK_TRY(identify_header(header.first(count)));
  PENSTOCK_TRY(check_name(key, name));
  return key;
}

Result<EntryKey> verify_entry(CacheDirectory& directory, const EntryName& name,
                              std::span<std::byte> memory) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(directory.open_entry(name));
  const std::span<std::byte> bytes = memory.first(name.file_bytes());
  const size_t count = PENSTOCK_TRY(file->read(0, bytes));
  BlockSums sums;
  EntryKey key = PENSTOCK_TRY(identify_header(bytes.first(count), &sums));
  PENSTOCK_TRY(check_name(key, name));
  if (count < bytes.size() || PENSTOCK_TRY(file->stat()).size != bytes.size()) {
    return corrupt_entry(fmt::format("it has not the {} bytes of its name", bytes.size()));
  }
  if (!sums.verify(0, bytes.subspan(header_bytes(key)))) {
    return corrupt_entry("its data does not have the checksums of its header");
  }
  return key;
}

Result<void> visit_entries(CacheDirectory& directory, const EntryVisitor& visitor) {
  ThreadPool pool("cache-look", visitor.threads, size_t{4} * visitor.threads);
  const Result<void> scanned = directory.scan(
      [&](const EntryName& name) {
        if (!visitor.wanted || visitor.wanted(name)) {
          pool.submit([&visitor, name] {
            if (!visitor.stop.stop_requested()) visitor.visit(name);
          });
        }
        return !visitor.stop.stop_requested();
      },
      visitor.foreign);
  pool.stop();
  return scanned;
}

}  // namespace penstock::cache
