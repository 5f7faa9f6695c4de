#include "meta/volume_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "codec/spec.h"

namespace penstock::meta {

namespace {

constexpr uint64_t kBlockBytesMin = 64 * kKiB;

std::string_view uuid_bytes(const Settings& settings) {
  return {reinterpret_cast<const char*>(settings.uuid.data()), settings.uuid.size()};
}

std::optional<int64_t> retention_of(const Settings& settings) {
  if (!settings.retention) return std::nullopt;
  return settings.retention->count();
}

Volume volume_of(const Query& row) {
  Volume volume;
  volume.id = row.integer(0);
  Settings& settings = volume.settings;
  const std::string uuid = row.bytes(1);
  std::copy_n(reinterpret_cast<const std::byte*>(uuid.data()),
              std::min(uuid.size(), settings.uuid.size()), settings.uuid.begin());
  settings.name = row.bytes(2);
  settings.block_bytes = row.number(3);
  settings.codec = {static_cast<codec::Codec>(row.integer(4)), static_cast<int>(row.integer(5))};
  settings.retention = std::nullopt;
  if (!row.null(6)) settings.retention = Nanoseconds(row.integer(6));
  settings.store = row.bytes(7);
  settings.quota = {row.number(8), row.number(9)};
  volume.horizon = row.number(10);
  volume.removed = row.integer(11) != 0;
  return volume;
}

}  // namespace

Result<void> check_settings(const Settings& settings) {
  const auto invalid = [](std::string why) {
    return make_error(ErrorCode::kInvalid, std::move(why));
  };
  const std::string& name = settings.name;
  const bool named = !name.empty() && name.size() <= kNameBytesMax &&
                     name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (!named) return invalid("the name of a volume has 1 to 255 bytes, none of them a slash");
  const uint64_t block = settings.block_bytes;
  if (!std::has_single_bit(block) || block < kBlockBytesMin || block > kChunkBytesMax)
    return invalid("blocks have a power of two from 64 KiB to 16 MiB");
  if (settings.retention && settings.retention->count() < 0)
    return invalid("a retention cannot be negative");
  if (settings.quota.bytes > kFileBytesMax || settings.quota.inodes > kFileBytesMax)
    return invalid("a quota is at most 2^63 - 1");
  return codec::check_spec(settings.codec);
}

Result<VolumeId> add_volume(Connection& db, const Settings& settings, Version horizon) {
  PENSTOCK_TRY(db.run(
      "INSERT INTO volume(uuid, name, block_bytes, codec, level, retention, store, "
      "quota_bytes, quota_inodes, horizon, removed) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
      uuid_bytes(settings), std::string_view(settings.name), settings.block_bytes,
      static_cast<int>(settings.codec.codec), settings.codec.level, retention_of(settings),
      std::string_view(settings.store), settings.quota.bytes, settings.quota.inodes, horizon));
  return sqlite3_last_insert_rowid(db.handle());
}

Result<void> store_settings(Connection& db, VolumeId id, const Settings& settings) {
  PENSTOCK_TRY(db.run(
      "UPDATE volume SET name = ?, codec = ?, level = ?, retention = ?, quota_bytes = ?, "
      "quota_inodes = ? WHERE id = ?",
      std::string_view(settings.name), static_cast<int>(settings.codec.codec), settings.codec.level,
      retention_of(settings), settings.quota.bytes, settings.quota.inodes, id));
  return {};
}

Result<std::vector<Volume>> read_volumes(Connection& db) {
  std::vector<Volume> volumes;
  Query query = db.query(
      "SELECT id, uuid, name, block_bytes, codec, level, retention, store, quota_bytes, "
      "quota_inodes, horizon, removed FROM volume ORDER BY id");
  while (PENSTOCK_TRY(query.next())) volumes.push_back(volume_of(query));
  return volumes;
}

Result<Totals> read_usage(Connection& db, VolumeId id, Version version) {
  Query query = db.query(
      "SELECT bytes, inodes FROM usage WHERE volume = ? AND version <= ? "
      "ORDER BY version DESC LIMIT 1",
      id, version);
  if (!PENSTOCK_TRY(query.next()))
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("the totals of version {} are missing", version));
  return Totals{query.number(0), query.number(1)};
}

}  // namespace penstock::meta
