// tar: ustar, with what GNU and pax added for long names and large sizes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "data/shard_parser.h"

namespace penstock::data {

// A regular file of an archive.
struct TarMember {
  std::string_view name;
  uint64_t offset = 0;  // Of its data.
  uint64_t size = 0;
};

// What one header block says by itself, without extended ones before it. Nothing when it is not the header of a regular file.
struct PlainTarHeader {
  std::string name;
  uint64_t size = 0;
};
std::optional<PlainTarHeader> read_plain_tar_header(std::span<const std::byte> block);
inline constexpr size_t kTarBlockBytes = 512;
inline uint64_t whole_blocks(uint64_t bytes) {
  return (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

// Finds the regular files of an archive. Others (folders, links, devices, labels) are passed over
// with their data; sparse files, whose data is not what the file holds, are refused with
// kUnsupported. The archive ends at its first zero block, or where the file does.
class TarParser final : public ShardParser {
 public:
  // Called for each as soon as its header is complete; its data may yet turn out to be missing.
  using Visit = std::function<Result<void>(const TarMember&)>;

  explicit TarParser(Visit visit) : visit_(std::move(visit)) {}

  std::optional<Wanted> wants() const override;
  Result<void> take(std::span<const std::byte> bytes) override;
  Result<void> end_at(uint64_t size) override;

 private:
  enum class State : uint8_t { kHeader, kLongName, kLongLink, kPax, kGlobalPax, kEnd };
  // What extended headers say about the file that follows.
  struct Extended {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
    bool sparse = false;
  };

  Result<void> take_header(std::span<const std::byte> bytes);
  Result<void> take_extension(State kind, uint64_t size);
  Result<void> take_member(char type, std::string_view bytes, uint64_t size);
  Result<void> take_pax(std::string_view body, Extended& into) const;
  Result<void> take_pax_record(std::string_view key, std::string_view value, Extended& into) const;
  Result<void> go_to_next_header(uint64_t data_bytes);
  Error corrupt(std::string_view what) const;

  const Visit visit_;
  State state_ = State::kHeader;
  uint64_t at_ = 0;  // Of what is wanted.
  size_t body_bytes_ = 0;
  std::string long_name_;
  bool awaits_member_ = false;  // After a header that is only about the next file.
  Extended local_;
  Extended global_;
  std::string name_;  // Of the last regular file, for errors.
};

}  // namespace penstock::data
