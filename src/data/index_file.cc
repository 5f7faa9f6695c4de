#include "data/index_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "data/shard_parser.h"
#include "penstock/frame.h"

namespace penstock::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the index is written as it lies");

constexpr std::array<char, 8> kMagic = {'p', 'e', 'n', '-', 'd', 'a', 't', 'a'};
constexpr uint32_t kVersion = 1;
constexpr size_t kBlockAlignment = 8;
constexpr uint64_t kTableBytesMax = kGiB;  // Of millions of shards; more is no table.

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t compatible = 0;  // Bits of what a reader may not know of and use the file all the same;
  uint32_t incompatible = 0;  // and of what it must know.
  uint32_t shards = 0;
  uint32_t folder_bytes = 0;
  uint32_t zero = 0;
  uint64_t table_bytes = 0;  // Folder and entries.
  uint64_t checksum = 0;     // Of the header with this as zero, then of the table.
};
static_assert(sizeof(Header) == 48);

struct RawEntry {
  uint16_t name_bytes = 0;
  uint16_t version_bytes = 0;
  uint8_t format = 0;
  uint8_t compression = 0;
  uint16_t zero = 0;
  uint64_t size = 0;
  uint64_t samples = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(RawEntry) == 48);

Error corrupt(const std::string& path, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("index {}: {}", path, what));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

uint64_t table_checksum(Header header, std::string_view table) {
  header.checksum = 0;
  return codec::hash_bytes(bytes_of(table),
                           codec::hash_bytes(std::as_bytes(std::span(&header, 1))));
}

// Seeded with whose block it is, so that another's is not taken for it.
uint64_t block_checksum(const IndexEntry& entry, const Block& block) {
  const uint64_t name = codec::hash_bytes(bytes_of(entry.name), entry.size);
  return codec::hash_bytes(block, codec::hash_bytes(bytes_of(entry.version), name));
}

// What offsets of a shard must stay within.
uint64_t bytes_to_read(const IndexEntry& entry) {
  return entry.compression == Compression::kNone ? entry.size : kShardBytesMax;
}

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string encode_table(const IndexTable& table) {
  std::string out = table.folder;
  for (const IndexEntry& entry : table.entries) {
    append(out, RawEntry{.name_bytes = static_cast<uint16_t>(entry.name.size()),
                         .version_bytes = static_cast<uint16_t>(entry.version.size()),
                         .format = static_cast<uint8_t>(entry.format),
                         .compression = static_cast<uint8_t>(entry.compression),
                         .size = entry.size,
                         .samples = entry.samples,
                         .offset = entry.offset,
                         .length = entry.length,
                         .checksum = entry.checksum});
    out += entry.name;
    out += entry.version;
  }
  return out;
}

bool is_sensible(const RawEntry& raw, uint64_t file_bytes) {
  const bool known = (raw.format == static_cast<uint8_t>(Format::kTar) ||
                      raw.format == static_cast<uint8_t>(Format::kTfRecord)) &&
                     raw.compression <= static_cast<uint8_t>(Compression::kZstd);
  return known && raw.samples <= UINT32_MAX && raw.offset <= file_bytes &&
         raw.length <= file_bytes - raw.offset;
}

// `text` from the folder on; the checksum was right.
Result<IndexTable> parse_table(const std::string& path, const Header& header, std::string_view text,
                               uint64_t file_bytes) {
  if (header.folder_bytes > text.size()) return corrupt(path, "its table is cut off");
  IndexTable table{std::string(text.substr(0, header.folder_bytes)), {}};
  text.remove_prefix(header.folder_bytes);
  for (uint32_t i = 0; i < header.shards; ++i) {
    RawEntry raw;
    if (text.size() < sizeof(raw)) return corrupt(path, "its table is cut off");
    std::memcpy(&raw, text.data(), sizeof(raw));
    text.remove_prefix(sizeof(raw));
    if (text.size() < size_t{raw.name_bytes} + raw.version_bytes) {
      return corrupt(path, "its table is cut off");
    }
    if (!is_sensible(raw, file_bytes)) return corrupt(path, "an entry that makes no sense");
    IndexEntry entry{.name = std::string(text.substr(0, raw.name_bytes)),
                     .version = std::string(text.substr(raw.name_bytes, raw.version_bytes)),
                     .size = raw.size,
                     .format = static_cast<Format>(raw.format),
                     .compression = static_cast<Compression>(raw.compression),
                     .samples = raw.samples,
                     .offset = raw.offset,
                     .length = raw.length,
                     .checksum = raw.checksum};
    text.remove_prefix(size_t{raw.name_bytes} + raw.version_bytes);
    if (!table.entries.empty() && entry.name <= table.entries.back().name) {
      return corrupt(path, "its table is not sorted");
    }
    table.entries.push_back(std::move(entry));
  }
  if (!text.empty()) return corrupt(path, "its table is too long");
  return table;
}

Result<void> read_exactly(io::File& file, const std::string& path, uint64_t offset,
                          std::span<std::byte> into) {
  const size_t got = PENSTOCK_TRY(file.read(offset, into));
  if (got < into.size()) return corrupt(path, "cut off");
  return {};
}

Result<std::unique_ptr<io::File>> open_index(io::FileSystem& fs, const std::string& path) {
  return fs.open(path, {.plain_only = true});
}

Result<IndexTable> read_table(io::File& file, const std::string& path) {
  const uint64_t file_bytes = PENSTOCK_TRY(file.stat()).size;
  Header header;
  if (file_bytes < sizeof(header)) return corrupt(path, "cut off");
  PENSTOCK_TRY(read_exactly(file, path, 0, std::as_writable_bytes(std::span(&header, 1))));
  if (header.magic != kMagic) return corrupt(path, "not one");
  if (header.version != kVersion || header.incompatible != 0) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("index {} was written by a newer version", path));
  }
  if (header.table_bytes > std::min(file_bytes - sizeof(header), kTableBytesMax)) {
    return corrupt(path, "cut off");
  }
  std::string text(header.table_bytes, '\0');
  PENSTOCK_TRY(read_exactly(file, path, sizeof(header), std::as_writable_bytes(std::span(text))));
  if (table_checksum(header, text) != header.checksum) {
    return corrupt(path, "the checksum of its table is wrong");
  }
  return parse_table(path, header, text, file_bytes);
}

Result<Block> read_block(io::File& file, const std::string& path, const IndexEntry& entry) {
  if (entry.length > PENSTOCK_TRY(file.stat()).size) return corrupt(path, "cut off");
  Block block(entry.length);
  PENSTOCK_TRY(read_exactly(file, path, entry.offset, block));
  if (block_checksum(entry, block) != entry.checksum) {
    return corrupt(path, fmt::format("the checksum of '{}' is wrong", entry.name));
  }
  return block;
}

// Where the blocks of a new file come from.
class Merge {
 public:
  Merge(io::FileSystem& fs, const std::string& path) : fs_(fs), path_(path) {}

  // Nothing is kept of a file that cannot be read.
  Result<void> add_old(const std::function<bool(const IndexEntry&)>& keep) {
    Result<std::unique_ptr<io::File>> file = open_index(fs_, path_);
    if (!file.ok()) return {};
    const Result<IndexTable> table = read_table(**file, path_);
    if (!table.ok()) {
      // A newer version's is not ours to replace.
      return table.error().code == ErrorCode::kUnsupported ? table.error() : Result<void>();
    }
    old_ = std::move(*file);
    for (const IndexEntry& entry : table->entries) {
      if (keep(entry) && read_block(*old_, path_, entry).ok()) {
        sources_[entry.name] = {entry, nullptr, entry.offset};
      }
    }
    return {};
  }

  void add(const NewIndex& added) {
    IndexEntry entry = added.entry;
    entry.length = added.index->block().size();
    entry.checksum = block_checksum(entry, added.index->block());
    sources_[added.entry.name] = {std::move(entry), added.index, 0};
  }

  Result<IndexTable> write(io::File& file, const std::string& folder) {
    IndexTable table = lay_out(folder);
    const std::string text = encode_table(table);
    Header header{.shards = static_cast<uint32_t>(table.entries.size()),
                  .folder_bytes = static_cast<uint32_t>(folder.size()),
                  .table_bytes = text.size()};
    header.checksum = table_checksum(header, text);
    PENSTOCK_TRY(file.write(0, std::as_bytes(std::span(&header, 1))));
    PENSTOCK_TRY(file.write(sizeof(header), bytes_of(text)));
    for (const IndexEntry& entry : table.entries) {
      const Source& source = sources_[entry.name];
      if (source.index) {
        PENSTOCK_TRY(file.write(entry.offset, source.index->block()));
        continue;
      }
      IndexEntry old = source.entry;
      old.offset = source.old_offset;
      const Block block = PENSTOCK_TRY(read_block(*old_, path_, old));
      PENSTOCK_TRY(file.write(entry.offset, block));
    }
    return table;
  }

 private:
  struct Source {
    IndexEntry entry;
    std::shared_ptr<const ColumnIndex> index;  // Null: in the old file,
    uint64_t old_offset = 0;                   // here.
  };

  // The table with the places that blocks will have.
  IndexTable lay_out(const std::string& folder) const {
    IndexTable table{folder, {}};
    uint64_t at = sizeof(Header) + folder.size();
    for (const auto& [name, source] : sources_) {
      at += sizeof(RawEntry) + name.size() + source.entry.version.size();
    }
    for (const auto& [name, source] : sources_) {
      at = (at + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
      table.entries.push_back(source.entry);
      table.entries.back().offset = at;
      at += source.entry.length;
    }
    return table;
  }

  io::FileSystem& fs_;
  const std::string& path_;
  std::unique_ptr<io::File> old_;
  std::map<std::string, Source> sources_;
};

}  // namespace

const IndexEntry* IndexTable::find(const std::string& name) const {
  const auto at = std::ranges::lower_bound(entries, name, {}, &IndexEntry::name);
  return at != entries.end() && at->name == name ? &*at : nullptr;
}

Result<IndexTable> read_index_table(io::FileSystem& fs, const std::string& path) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(open_index(fs, path));
  return read_table(*file, path);
}

Result<std::shared_ptr<const ColumnIndex>> read_index(io::FileSystem& fs, const std::string& path,
                                                      const IndexEntry& entry) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(open_index(fs, path));
  Block block = PENSTOCK_TRY(read_block(*file, path, entry));
  auto index = PENSTOCK_TRY(ColumnIndex::parse(std::move(block), bytes_to_read(entry)));
  if (index->samples() != entry.samples) return corrupt(path, "a block that is another's");
  return index;
}

Result<IndexTable> write_index_file(io::FileSystem& fs, const std::string& path,
                                    const std::string& folder, std::span<const NewIndex> added,
                                    const std::function<bool(const IndexEntry&)>& keep) {
  Merge merge(fs, path);
  PENSTOCK_TRY(merge.add_old(keep));
  for (const NewIndex& one : added) merge.add(one);
  // One name for all: there is one writer at a time, and what a killed one left is written over.
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> Result<IndexTable> {
    const std::unique_ptr<io::File> file =
        PENSTOCK_TRY(fs.open(temporary, {
                                            .access = io::Access::kWrite,
                                            .create = io::Create::kTruncate,
                                            .plain_only = true,
                                        }));
    IndexTable table = PENSTOCK_TRY(merge.write(*file, folder));
    PENSTOCK_TRY(file->sync());
    PENSTOCK_TRY(file->close());
    PENSTOCK_TRY(fs.rename(temporary, path));
    return table;
  };
  Result<IndexTable> written = write();
  if (!written.ok()) {
    (void)fs.remove(temporary);
    return written;
  }
  PENSTOCK_TRY(fs.sync_directory(io::parent_path(path)));
  return written;
}

}  // namespace penstock::data
