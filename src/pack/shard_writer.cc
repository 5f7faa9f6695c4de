#include "pack/shard_writer.h"

#include <fmt/core.h>

#include "pack/tar_writer.h"

namespace penstock::pack {

Result<void> ShardWriter::write(std::span<const std::byte> bytes) {
  PENSTOCK_TRY(upload_->write(bytes));
  in_shard_ += bytes.size();
  bytes_ += bytes.size();
  return {};
}

Result<void> ShardWriter::begin_sample(uint64_t bytes) {
  if (upload_ != nullptr && in_shard_ + bytes + kTarEnd > shard_bytes_) PENSTOCK_TRY(end_shard());
  if (upload_ != nullptr) return {};
  store::PutOptions options;
  options.size = std::max(shard_bytes_, bytes + kTarEnd);
  upload_ = PENSTOCK_TRY(
      store_.start_upload(fmt::format("{}-{:06}.tar", prefix_, shards_), std::move(options)));
  in_shard_ = 0;
  return {};
}

Result<void> ShardWriter::add(const std::string& name, std::span<const std::byte> data) {
  static constexpr std::array<std::byte, kTarBlock> kZeros{};
  const TarHeader header = PENSTOCK_TRY(make_tar_header(name, data.size()));
  PENSTOCK_TRY(write(header));
  PENSTOCK_TRY(write(data));
  return write(std::span(kZeros).first(tar_padding(data.size())));
}

Result<void> ShardWriter::end_shard() {
  static constexpr std::array<std::byte, kTarEnd> kZeros{};
  PENSTOCK_TRY(write(kZeros));
  PENSTOCK_TRY(upload_->finish());
  upload_.reset();
  ++shards_;
  return {};
}

Result<void> ShardWriter::finish() {
  return upload_ != nullptr ? end_shard() : Result<void>();
}

}  // namespace penstock::pack
