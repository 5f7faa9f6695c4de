#include "data/column_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "data/sample_names.h"
#include "data/shard_parser.h"

namespace penstock::data {

namespace {

static_assert(std::endian::native == std::endian::little, "blocks are used as they lie");

constexpr size_t kExtensionBytesMax = 4096;  // So that all together have less than 4 GiB.

struct BlockHeader {
  uint32_t samples = 0;
  uint32_t members = 0;
  uint32_t fields = 0;
  uint32_t suffixes = 0;
  uint32_t keys_bytes = 0;
  uint32_t names_bytes = 0;
};
static_assert(sizeof(BlockHeader) == 24);

uint64_t block_bytes(const BlockHeader& header) {
  return sizeof(header) + uint64_t{header.members} * sizeof(Member) +
         uint64_t{header.samples} * 2 * sizeof(uint32_t) + header.keys_bytes + header.names_bytes;
}

Error corrupt_block(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("index of a shard: {}", what));
}

// Each with its length, in 2 bytes, in front.
Result<std::vector<std::string>> take_names(std::string_view& names, uint32_t count) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t length = 0;
    if (names.size() < sizeof(length)) return corrupt_block("its names are cut off");
    std::memcpy(&length, names.data(), sizeof(length));
    names.remove_prefix(sizeof(length));
    if (names.size() < length) return corrupt_block("its names are cut off");
    out.emplace_back(names.substr(0, length));
    names.remove_prefix(length);
  }
  return out;
}

void append_names(std::string& out, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto length = static_cast<uint16_t>(name.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out += name;
  }
}

// Whether these go up, each by at least `step`, to `last`.
bool ends_are_right(std::span<const uint32_t> ends, uint32_t step, uint64_t last) {
  uint64_t before = 0;
  for (const uint32_t end : ends) {
    if (end < before + step) return false;
    before = end;
  }
  return before == last;
}

template <typename T>
void append(Block& block, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  block.insert(block.end(), bytes.begin(), bytes.end());
}

}  // namespace

Result<std::shared_ptr<const ColumnIndex>> ColumnIndex::parse(Block block, uint64_t shard_bytes) {
  BlockHeader header;
  if (block.size() < sizeof(header)) return corrupt_block("cut off");
  std::memcpy(&header, block.data(), sizeof(header));
  if (block_bytes(header) != block.size()) return corrupt_block("its length is wrong");
  const std::shared_ptr<ColumnIndex> index(new ColumnIndex());
  index->block_ = std::move(block);
  const std::byte* at = index->block_.data() + sizeof(header);
  index->members_ = {reinterpret_cast<const Member*>(at), header.members};
  at += index->members_.size_bytes();
  index->member_ends_ = {reinterpret_cast<const uint32_t*>(at), header.samples};
  at += index->member_ends_.size_bytes();
  index->key_ends_ = {reinterpret_cast<const uint32_t*>(at), header.samples};
  at += index->key_ends_.size_bytes();
  index->keys_ = {reinterpret_cast<const char*>(at), header.keys_bytes};
  at += header.keys_bytes;
  std::string_view names(reinterpret_cast<const char*>(at), header.names_bytes);
  index->fields_ = PENSTOCK_TRY(take_names(names, header.fields));
  index->suffixes_ = PENSTOCK_TRY(take_names(names, header.suffixes));
  if (!names.empty()) return corrupt_block("its length is wrong");
  PENSTOCK_TRY(index->check(shard_bytes));
  return std::shared_ptr<const ColumnIndex>(index);
}

Result<void> ColumnIndex::check(uint64_t shard_bytes) const {
  if (!ends_are_right(member_ends_, 1, members_.size()))
    return corrupt_block("samples without fields");
  if (!ends_are_right(key_ends_, 0, keys_.size())) return corrupt_block("keys that overlap");
  for (const Member& member : members_) {
    if (member.field >= fields_.size() || member.suffix >= suffixes_.size()) {
      return corrupt_block("a field without a name");
    }
    if (member.offset > shard_bytes || member.size > shard_bytes - member.offset) {
      return corrupt_block("a field that is not in the shard");
    }
  }
  return {};
}

std::string_view ColumnIndex::key(uint32_t sample) const {
  assert(sample < samples());
  const uint32_t begin = sample == 0 ? 0 : key_ends_[sample - 1];
  return keys_.substr(begin, key_ends_[sample] - begin);
}

std::span<const Member> ColumnIndex::members(uint32_t sample) const {
  assert(sample < samples());
  const uint32_t begin = sample == 0 ? 0 : member_ends_[sample - 1];
  return members_.subspan(begin, member_ends_[sample] - begin);
}

std::string ColumnIndex::path(uint32_t sample, size_t member) const {
  return fmt::format("{}.{}", key(sample), suffixes_[members(sample)[member].suffix]);
}

Result<void> IndexBuilder::add(std::string_view key, std::string_view extension, uint64_t offset,
                               uint64_t size) {
  if (member_ends_.empty() || key != last_key()) PENSTOCK_TRY(begin_sample(key));
  return add_member(extension, offset, size);
}

Result<void> IndexBuilder::add_named(std::string_view name, uint64_t offset, uint64_t size) {
  if (is_metadata_name(name)) return {};
  const std::optional<SampleName> split = split_name(name);
  if (!split) return {};
  return add(split->key, split->extension, offset, size);
}

Result<void> IndexBuilder::add_record(uint64_t offset, uint64_t size) {
  PENSTOCK_TRY(begin_sample(""));
  return add_member("tfrecord", offset, size);
}

Result<void> IndexBuilder::add_alone(std::string_view key, std::string_view extension,
                                     uint64_t size) {
  PENSTOCK_TRY(begin_sample(key));
  return add_member(extension, 0, size);
}

std::string_view IndexBuilder::last_key() const {
  const size_t begin = key_ends_.size() < 2 ? 0 : key_ends_[key_ends_.size() - 2];
  return std::string_view(keys_).substr(begin);
}

Result<void> IndexBuilder::begin_sample(std::string_view key) {
  if (keys_.size() + key.size() > UINT32_MAX) {
    return make_error(ErrorCode::kUnsupported, "more than 4 GiB of keys in one shard");
  }
  keys_ += key;
  key_ends_.push_back(static_cast<uint32_t>(keys_.size()));
  member_ends_.push_back(static_cast<uint32_t>(members_.size()));
  return {};
}

Result<IndexBuilder::Extension> IndexBuilder::extension_of(std::string_view written) {
  if (const auto known = extensions_.find(written); known != extensions_.end()) {
    return known->second;
  }
  if (suffixes_.size() >= kFieldsMax || written.size() > kExtensionBytesMax) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("more than {} different extensions, or one that is very long: "
                                  "are these samples?",
                                  kFieldsMax));
  }
  const std::string lower = lower_case(written);
  uint16_t field = 0;
  if (const auto same = extensions_.find(lower); same != extensions_.end()) {
    field = same->second.field;
  } else if (lower != written) {
    field = PENSTOCK_TRY(extension_of(lower)).field;
  } else {
    field = static_cast<uint16_t>(fields_.size());
    fields_.push_back(lower);
    last_sample_with_.push_back(0);
  }
  const Extension extension{field, static_cast<uint16_t>(suffixes_.size())};
  suffixes_.emplace_back(written);
  extensions_.emplace(written, extension);
  return extension;
}

Result<void> IndexBuilder::add_member(std::string_view extension, uint64_t offset, uint64_t size) {
  if (members_.size() == UINT32_MAX) {
    return make_error(ErrorCode::kUnsupported, "more than 4 billion files in one shard");
  }
  const Extension known = PENSTOCK_TRY(extension_of(extension));
  uint64_t& last_sample = last_sample_with_[known.field];
  if (last_sample == samples()) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("at offset {}: the sample '{}' has two files '.{}'", offset,
                                  last_key(), fields_[known.field]));
  }
  last_sample = samples();
  // The masks change nothing: parsers refuse what is larger.
  members_.push_back({.offset = offset & kShardBytesMax,
                      .field = known.field,
                      .size = size & kShardBytesMax,
                      .suffix = known.suffix});
  member_ends_.back() = static_cast<uint32_t>(members_.size());
  return {};
}

Block IndexBuilder::finish() {
  std::string names;
  append_names(names, fields_);
  append_names(names, suffixes_);
  const BlockHeader header{.samples = static_cast<uint32_t>(member_ends_.size()),
                           .members = static_cast<uint32_t>(members_.size()),
                           .fields = static_cast<uint32_t>(fields_.size()),
                           .suffixes = static_cast<uint32_t>(suffixes_.size()),
                           .keys_bytes = static_cast<uint32_t>(keys_.size()),
                           .names_bytes = static_cast<uint32_t>(names.size())};
  Block block;
  block.reserve(block_bytes(header));
  append(block, std::span<const BlockHeader>(&header, 1));
  append(block, std::span<const Member>(members_));
  append(block, std::span<const uint32_t>(member_ends_));
  append(block, std::span<const uint32_t>(key_ends_));
  append(block, std::span<const char>(keys_));
  append(block, std::span<const char>(names));
  *this = {};
  return block;
}

}  // namespace penstock::data
