// A database on SQLite: everything that concerns no single namespace.
#include <fmt/core.h>

#include <algorithm>

#include "meta/chunk_rows.h"
#include "meta/sqlite_namespace.h"
#include "meta/upkeep.h"
#include "meta/volume_rows.h"

namespace penstock::meta {

namespace {

class HeldPin : public Pin {
 public:
  // `pins` has the version already.
  HeldPin(std::shared_ptr<Pins> pins, Version version)
      : pins_(std::move(pins)), version_(version) {}
  ~HeldPin() override {
    std::lock_guard lock(pins_->mutex);
    pins_->versions.erase(pins_->versions.find(version_));
  }
  Version version() const override { return version_; }

 private:
  const std::shared_ptr<Pins> pins_;
  const Version version_;
};

class SqliteDatabase : public Database {
 public:
  explicit SqliteDatabase(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  Result<std::vector<std::string>> volumes() override {
    return core_->read([&]() -> Result<std::vector<std::string>> {
      std::vector<std::string> names;
      for (const auto& [id, volume] : core_->volumes()) {
        if (!volume->removed) names.push_back(volume->settings.name);
      }
      return names;
    });
  }

  Result<std::unique_ptr<Namespace>> open(std::string_view name) override {
    return core_->read([&]() -> Result<std::unique_ptr<Namespace>> {
      std::shared_ptr<Volume> volume = PENSTOCK_TRY(core_->volume(name));
      return std::unique_ptr<Namespace>(
          std::make_unique<SqliteNamespace>(core_, std::move(volume)));
    });
  }

  Result<void> clone(std::string_view name, Version version, const Settings& settings) override {
    return core_->change_much([&] { return clone_volume(*core_, name, version, settings); });
  }

  Result<void> remove(std::string_view name) override {
    return core_->change([&] { return remove_volume(*core_, name); });
  }

  Result<Version> commit(const Commit& commit) override { return core_->commit(commit); }
  JournalPosition journal() override { return core_->journal(); }
  Version last_version() override { return core_->last_version(); }

  Result<Time> time_of(Version version) override {
    return core_->read([&] { return find_time(version); });
  }
  Result<Version> version_at(Time time) override {
    return core_->read([&]() -> Result<Version> {
      const auto found = PENSTOCK_TRY(newest_version(*core_, time));
      if (found && *found >= core_->horizon()) return *found;
      return make_error(ErrorCode::kNotFound, "no version that old is kept");
    });
  }

  Result<std::unique_ptr<Pin>> pin(Version version) override {
    return core_->read([&]() -> Result<std::unique_ptr<Pin>> {
      if (version < core_->horizon() || version > core_->last()) return no_version(version);
      {
        std::lock_guard lock(core_->pins()->mutex);
        core_->pins()->versions.insert(version);
      }
      return std::unique_ptr<Pin>(std::make_unique<HeldPin>(core_->pins(), version));
    });
  }

  Result<void> make_snapshot(std::string_view volume, std::string_view name,
                             Version version) override {
    return core_->change([&] { return add_snapshot(volume, name, version); });
  }
  Result<void> remove_snapshot(std::string_view volume, std::string_view name) override {
    return core_->change([&]() -> Result<void> {
      const std::shared_ptr<Volume> found = PENSTOCK_TRY(core_->volume(volume));
      const uint64_t removed = PENSTOCK_TRY(
          core_->db().run("DELETE FROM snapshot WHERE volume = ? AND name = ?", found->id, name));
      if (removed == 0)
        return make_error(ErrorCode::kNotFound, fmt::format("there is no snapshot {}", name));
      core_->note_upkeep();
      return {};
    });
  }
  Result<std::vector<Snapshot>> snapshots(std::string_view volume) override {
    return core_->read([&]() -> Result<std::vector<Snapshot>> {
      const std::shared_ptr<Volume> found = PENSTOCK_TRY(core_->volume(volume));
      std::vector<Snapshot> all;
      Query query = core_->db().query(
          "SELECT name, version, time FROM snapshot WHERE volume = ? ORDER BY version, name",
          found->id);
      while (PENSTOCK_TRY(query.next()))
        all.push_back({query.bytes(0), query.number(1), query.integer(2)});
      return all;
    });
  }

  uint32_t session() const override { return core_->session(); }
  Result<void> add_object(const Object& object) override {
    return core_->change([&] { return add_object_row(*core_, object); });
  }
  Result<void> set_object(ObjectId id, ObjectState state, uint64_t bytes) override {
    return core_->change([&] { return set_object_row(*core_, id, state, bytes); });
  }
  Result<void> drop_object(ObjectId id) override {
    return core_->change([&] { return drop_object_row(*core_, id); });
  }
  Result<Object> object(ObjectId id) override {
    return core_->read([&] { return load_object(*core_, id); });
  }
  Result<std::vector<Object>> segments() override {
    return core_->read([&] { return list_segments(*core_); });
  }
  Result<std::vector<Object>> objects(ObjectId after, size_t count) override {
    return core_->read([&] { return list_objects(*core_, after, count); });
  }
  Result<std::vector<Chunk>> chunks_of(ObjectId object, uint64_t from_offset,
                                       size_t count) override {
    return core_->read([&] { return list_chunks(*core_, object, from_offset, count); });
  }
  Result<void> move_chunk(ChunkId chunk, const Place& from, const Place& to) override {
    return core_->change([&] { return move_chunk_row(*core_, chunk, from, to); });
  }

  Result<Purged> purge(Time now, uint64_t rows) override {
    return core_->change_much([&] { return purge_rows(*core_, now, rows); });
  }
  Result<std::vector<std::string>> check() override {
    return core_->read([&] { return find_contradictions(*core_); });
  }
  Result<std::vector<std::string>> repair() override {
    return core_->change_much([&] { return mend_counts(*core_); });
  }

 private:
  Result<Time> find_time(Version version) {
    Query query = core_->db().query("SELECT time FROM version WHERE id = ?", version);
    if (!PENSTOCK_TRY(query.next())) return no_version(version);
    return query.integer(0);
  }

  Result<void> add_snapshot(std::string_view volume, std::string_view name, Version version) {
    const std::shared_ptr<Volume> found = PENSTOCK_TRY(core_->volume(volume));
    if (name.empty() || name.size() > kNameBytesMax)
      return make_error(ErrorCode::kInvalid, "the name of a snapshot has 1 to 255 bytes");
    if (version < found->horizon || version > core_->last()) return no_version(version);
    const Time time = PENSTOCK_TRY(find_time(version));
    const uint64_t added = PENSTOCK_TRY(core_->db().run(
        "INSERT OR IGNORE INTO snapshot VALUES(?, ?, ?, ?)", found->id, name, version, time));
    if (added == 0)
      return make_error(ErrorCode::kExists, fmt::format("there is a snapshot {} already", name));
    core_->note_upkeep();
    return {};
  }

  const std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<Database>> open_sqlite(io::FileSystem& fs, const std::string& path,
                                              const SqliteOptions& options) {
  auto core = std::make_shared<Core>(fs, path);
  const Result<void> connected = core->connect(options);
  if (!connected.ok()) {
    core->abandon();
    return connected.error().with_context(path);
  }
  return std::unique_ptr<Database>(std::make_unique<SqliteDatabase>(std::move(core)));
}

}  // namespace penstock::meta
