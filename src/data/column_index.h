// The index of one shard: a block of bytes that is used as it lies, in memory and in an index file.
// docs/formats/index.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/data.h"

namespace penstock::data {

using Block = std::vector<std::byte>;

class ColumnIndex final : public ShardIndex {
 public:
  // Takes what lies within the first `shard_bytes` of a shard; kCorrupt for a block that says
  // anything else, or nothing sensible.
  static Result<std::shared_ptr<const ColumnIndex>> parse(Block block, uint64_t shard_bytes);

  uint32_t samples() const override { return static_cast<uint32_t>(key_ends_.size()); }
  std::string_view key(uint32_t sample) const override;
  std::span<const Member> members(uint32_t sample) const override;
  std::string path(uint32_t sample, size_t member) const override;
  const std::vector<std::string>& fields() const override { return fields_; }
  uint64_t memory_bytes() const override { return sizeof(*this) + block_.capacity(); }
  // Of all members of the shard, in the order in which they were added.
  size_t member_number(uint32_t sample, size_t member) const {
    return static_cast<size_t>(members(sample).data() - members_.data()) + member;
  }

  const Block& block() const { return block_; }

 private:
  ColumnIndex() = default;
  Result<void> check(uint64_t shard_bytes) const;

  Block block_;
  std::span<const Member> members_;
  std::span<const uint32_t> member_ends_;
  std::span<const uint32_t> key_ends_;
  std::string_view keys_;
  std::vector<std::string> fields_;
  std::vector<std::string> suffixes_;
};

// Puts an index together, file by file.
class IndexBuilder {
 public:
  // One less than numbers of 16 bits: an extension may need a second one, in lower case.
  static constexpr size_t kFieldsMax = 65'535;

  // A file of a shard. It belongs to the sample of the one before when the key is the same; kCorrupt
  // when that has such a field already. `extension` as it is written.
  Result<void> add(std::string_view key, std::string_view extension, uint64_t offset,
                   uint64_t size);
  // The same by the file's name, unless that belongs to no sample.
  Result<void> add_named(std::string_view name, uint64_t offset, uint64_t size);
  // A sample of one field and without a key.
  Result<void> add_record(uint64_t offset, uint64_t size);
  // A sample of one file, whatever the keys of others.
  Result<void> add_alone(std::string_view key, std::string_view extension, uint64_t size);

  uint64_t samples() const { return member_ends_.size(); }
  uint64_t members() const { return members_.size(); }
  // The block; the builder is then empty.
  Block finish();

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Extension {
    uint16_t field = 0;
    uint16_t suffix = 0;
  };

  Result<Extension> extension_of(std::string_view written);
  Result<void> begin_sample(std::string_view key);
  Result<void> add_member(std::string_view extension, uint64_t offset, uint64_t size);
  std::string_view last_key() const;

  std::vector<Member> members_;
  std::vector<uint32_t> member_ends_;
  std::vector<uint32_t> key_ends_;
  std::string keys_;
  std::vector<std::string> fields_;
  std::vector<std::string> suffixes_;
  std::vector<uint64_t> last_sample_with_;  // By field; counted from 1.
  std::unordered_map<std::string, Extension, Hash, std::equal_to<>> extensions_;  // As written.
};

}  // namespace penstock::data
