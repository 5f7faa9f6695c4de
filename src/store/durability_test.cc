// Every failing call and every moment at which the power can go, over a script of puts, overwrites,
// removes and flushes: what was flushed survives, the rest is old, new or absent, nothing is torn,
// and the store opens again.
#include <fmt/core.h>

#include <set>

#include "io/faulty_file_system.h"
#include "store/conformance.h"

namespace penstock::store {

namespace {

using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;

using OpenIn = std::function<Result<std::unique_ptr<ObjectStore>>(io::FileSystem&)>;

Result<std::unique_ptr<ObjectStore>> open_file_in(io::FileSystem& fs) {
  return open_file_store(fs, "/data/store");
}
Result<std::unique_ptr<ObjectStore>> open_tree_in(io::FileSystem& fs) {
  return open_tree_store(fs, "/data");
}

// What an object may be: version 0 is "absent".
using Versions = std::set<uint64_t>;

Bytes bytes_of(uint64_t version) {
  return make_bytes(version * 613 % 5000, version);
}

// Every other version brings a time and a mode along.
PutOptions options_of(uint64_t version) {
  PutOptions options;
  if (version % 2 == 0) return options;
  options.mtime_ns = static_cast<int64_t>(version) * 1000;
  options.mode = 0400 + version % 8;
  return options;
}

// Whether the store kept them, if it keeps any.
bool kept_of(uint64_t version, const ObjectInfo& info) {
  const PutOptions options = options_of(version);
  if (!options.mtime_ns || !info.kept_mtime_ns) return true;
  return info.kept_mtime_ns == options.mtime_ns && info.kept_mode == options.mode;
}

struct Step {
  enum class Kind { kPut, kUpload, kRemove, kFlush } kind;
  std::string key;
};

// Knows for every key which versions it may have now, and after a power cut.
class Expectation {
 public:
  void put(const std::string& key, uint64_t version, bool ok) { become(key, version, ok); }
  void remove(const std::string& key, bool ok) { become(key, 0, ok); }
  void flush(bool ok) {
    for (auto& [key, object] : objects_) {
      if (ok) {
        object.flushed = object.now;
        object.since.clear();
      } else {
        // All that was put since the last flush may be gone, and what was there before seen again.
        object.now.insert(object.flushed.begin(), object.flushed.end());
        object.now.insert(object.since.begin(), object.since.end());
      }
    }
  }
  Versions now(const std::string& key) { return objects_[key].now; }
  Versions after_power_cut(const std::string& key) {
    Versions all = objects_[key].flushed;
    all.insert(objects_[key].since.begin(), objects_[key].since.end());
    return all;
  }

 private:
  struct Object {
    Versions now = {0};
    Versions flushed = {0};
    Versions since;
  };
  void become(const std::string& key, uint64_t version, bool ok) {
    Object& object = objects_[key];
    if (ok) object.now.clear();
    object.now.insert(version);
    object.since.insert(version);
  }

  std::map<std::string, Object> objects_;
};

class Durability : public ::testing::Test {
 protected:
  using Kind = Step::Kind;

  static std::set<std::string> keys_of(const std::vector<Step>& script) {
    std::set<std::string> keys;
    for (const Step& step : script) keys.insert(step.key);
    keys.erase("");  // Of the flushes.
    return keys;
  }

  static Result<void> upload(ObjectStore& store, const std::string& key, uint64_t version) {
    const std::unique_ptr<Upload> started =
        PENSTOCK_TRY(store.start_upload(key, options_of(version)));
    PENSTOCK_TRY(started->write(bytes_of(version)));
    PENSTOCK_TRY(started->finish());
    return {};
  }

  // Runs the script, whatever fails, on a store opened in `fs`.
  static Expectation run(io::FileSystem& fs, const OpenIn& open, const std::vector<Step>& script) {
    Expectation expected;
    Result<std::unique_ptr<ObjectStore>> store = open(fs);
    if (!store.ok()) return expected;
    uint64_t version = 0;
    for (const Step& step : script) {
      const Bytes bytes = bytes_of(++version);
      if (step.kind == Kind::kPut)
        expected.put(step.key, version, (*store)->put(step.key, bytes, options_of(version)).ok());
      if (step.kind == Kind::kUpload)
        expected.put(step.key, version, upload(**store, step.key, version).ok());
      if (step.kind == Kind::kRemove) expected.remove(step.key, (*store)->remove(step.key).ok());
      if (step.kind == Kind::kFlush) expected.flush((*store)->flush().ok());
    }
    for (const std::string& key : keys_of(script)) {  // What is seen before any power cut.
      check(**store, key, expected.now(key), "now");
    }
    return expected;
  }

  static void check(ObjectStore& store, const std::string& key, const Versions& allowed,
                    std::string_view when) {
    const Result<Bytes> got = get_all(store, key);
    if (!got.ok() && got.error().code != ErrorCode::kNotFound) {
      // The machine is off, or the one call that fails was this.
      if (got.error().os_errno != 0 && when == "now") return;
      ADD_FAILURE() << when << ": " << got.error().to_string();
      return;
    }
    for (const uint64_t version : allowed) {
      if (version == 0 && !got.ok()) return;
      if (version == 0 || !got.ok() || *got != bytes_of(version)) continue;
      const Result<ObjectInfo> info = store.head(key);
      EXPECT_TRUE(!info.ok() || kept_of(version, *info)) << when << ": " << key;
      return;
    }
    ADD_FAILURE() << when << ": '" << key << "' is "
                  << (got.ok() ? fmt::format("{} bytes", got->size()) : "absent")
                  << ", which is none of what it may be";
  }

  // The store opens, holds what it must, shows it in listings, and works.
  static void check_after(MemoryFileSystem& fs, const OpenIn& open, const std::vector<Step>& script,
                          Expectation& expected) {
    Result<std::unique_ptr<ObjectStore>> store = open(fs);
    ASSERT_THAT(store, IsOk());
    for (const std::string& key : keys_of(script)) {
      check(**store, key, expected.after_power_cut(key), "after the power cut");
    }
    EXPECT_THAT(for_each_object(**store, "",
                                [&](const ObjectInfo& info) {
                                  EXPECT_THAT((*store)->head(info.key), IsOk());
                                  return true;
                                }),
                IsOk());
    ASSERT_THAT((*store)->put("k", bytes_of(3)), IsOk());
    ASSERT_THAT((*store)->flush(), IsOk());
    EXPECT_EQ(*get_all(**store, "k"), bytes_of(3));
  }

  static std::unique_ptr<MemoryFileSystem> empty_disk() {
    auto fs = std::make_unique<MemoryFileSystem>();
    EXPECT_THAT(fs->make_directory("/data"), IsOk());
    EXPECT_THAT(fs->sync_directory("/"), IsOk());
    return fs;
  }

  static void try_every_call(const OpenIn& open, const std::vector<Step>& script, bool cut,
                             uint64_t seeds, uint64_t stride = 1) {
    uint64_t n = 1;
    for (;; n += stride) {
      SCOPED_TRACE(fmt::format("{} at call {}", cut ? "power cut" : "failure", n));
      FaultyFileSystem fs(cut ? FaultOptions{.cut_at = n} : FaultOptions{.fail_at = n},
                          empty_disk());
      Expectation expected = run(fs, open, script);
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        const std::unique_ptr<MemoryFileSystem> after = fs.power_cut(seed);
        check_after(*after, open, script, expected);
      }
      if (!fs.fault_hit() || HasFailure()) break;
    }
    EXPECT_GT(n, 100u) << "the script makes fewer calls than it should";
  }

  static std::vector<Step> short_script() {
    const std::string long_key = "long/" + std::string(250, 'x');
    return {{Kind::kPut, "a"},    {Kind::kPut, "b"},    {Kind::kFlush, ""},
            {Kind::kPut, "a"},    {Kind::kPut, "c/d"},  {Kind::kRemove, "b"},
            {Kind::kFlush, ""},   {Kind::kPut, "b"},    {Kind::kPut, "b"},
            {Kind::kRemove, "a"}, {Kind::kPut, "a"},    {Kind::kUpload, long_key.substr(0, 240)},
            {Kind::kFlush, ""},   {Kind::kRemove, "a"}, {Kind::kRemove, "c/d"},
            {Kind::kPut, "c/d"},  {Kind::kPut, "b"},    {Kind::kRemove, "b"},
            {Kind::kFlush, ""},   {Kind::kPut, "a"},    {Kind::kUpload, "b"},
            {Kind::kPut, "c/d"}};
  }

  static std::vector<Step> long_script() {
    std::vector<Step> script;
    for (int i = 0; i < 40; ++i) script.push_back({Kind::kPut, fmt::format("many/{}", i)});
    script.push_back({Kind::kFlush, ""});
    for (int i = 0; i < 40; ++i) {
      script.push_back({i % 2 == 0 ? Kind::kPut : Kind::kRemove, fmt::format("many/{}", i)});
    }
    script.push_back({Kind::kFlush, ""});
    return script;
  }
};

TEST_F(Durability, FileStoreWhenAnyCallFails) {
  try_every_call(open_file_in, short_script(), /*cut=*/false, /*seeds=*/3);
}

TEST_F(Durability, FileStoreWhenThePowerGoesAtAnyCall) {
  try_every_call(open_file_in, short_script(), /*cut=*/true, /*seeds=*/5);
}

TEST_F(Durability, FileStoreWithManyObjectsInOneFlush) {
  try_every_call(open_file_in, long_script(), /*cut=*/false, /*seeds=*/2, /*stride=*/23);
  try_every_call(open_file_in, long_script(), /*cut=*/true, /*seeds=*/3, /*stride=*/17);
}

TEST_F(Durability, TreeStoreWhenAnyCallFails) {
  try_every_call(open_tree_in, short_script(), /*cut=*/false, /*seeds=*/3);
}

TEST_F(Durability, TreeStoreWhenThePowerGoesAtAnyCall) {
  try_every_call(open_tree_in, short_script(), /*cut=*/true, /*seeds=*/5);
}

TEST_F(Durability, TreeStoreWithManyObjectsInOneFlush) {
  try_every_call(open_tree_in, long_script(), /*cut=*/true, /*seeds=*/4, /*stride=*/19);
}

// The same checks find a store that does not sync: the tests above can fail.
TEST_F(Durability, AStoreThatSyncsNothingIsFoundOut) {
  const OpenIn open_lazy = [](io::FileSystem& fs) {
    return open_tree_store(fs, "/data", {.sync_before_publish = false});
  };
  FaultyFileSystem fs(FaultOptions{}, empty_disk());
  Expectation expected = run(fs, open_lazy, short_script());
  bool torn = false;
  for (uint64_t seed = 0; seed < 50 && !torn; ++seed) {
    const std::unique_ptr<MemoryFileSystem> after = fs.power_cut(seed);
    const std::unique_ptr<ObjectStore> store = std::move(*open_lazy(*after));
    const Result<Bytes> got = get_all(*store, "a");
    torn = got.ok();
    for (const uint64_t version : expected.after_power_cut("a")) {
      torn = torn && *got != bytes_of(version);
    }
  }
  EXPECT_TRUE(torn);
}

// A failed sync of one file must not be asked again, nor hidden from another flush under way.
TEST_F(Durability, AFailedSyncLosesTheObjectAndSaysSo) {
  FaultyFileSystem fs({.fail_at = 2, .only = io::CallKind::kSync}, empty_disk());
  std::unique_ptr<ObjectStore> store = std::move(*open_file_in(fs));
  ASSERT_THAT(store->put("k", bytes_of(1)), IsOk());
  const Result<void> flushed = store->flush();  // Sync 1 was of the marker of the new store.
  ASSERT_THAT(flushed, FailsWith(ErrorCode::kIo));
  EXPECT_THAT(flushed.error().detail, ::testing::HasSubstr("put again"));
  EXPECT_THAT(store->head("k"), FailsWith(ErrorCode::kNotFound));
  ASSERT_THAT(store->put("k", bytes_of(2)), IsOk());
  ASSERT_THAT(store->flush(), IsOk());
  store.reset();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::unique_ptr<MemoryFileSystem> after = fs.power_cut(seed);
    EXPECT_EQ(*get_all(**open_file_in(*after), "k"), bytes_of(2));
  }
}

TEST_F(Durability, AFailedSyncIsToldToOtherProcessesToo) {
  FaultyFileSystem fs({.fail_at = 2, .only = io::CallKind::kSync}, empty_disk());
  const std::unique_ptr<ObjectStore> one = std::move(*open_file_in(fs));
  const std::unique_ptr<ObjectStore> two = std::move(*open_file_in(fs));
  ASSERT_THAT(two->put("k", bytes_of(1)), IsOk());
  ASSERT_THAT(one->flush(), FailsWith(ErrorCode::kIo));  // Takes the other's object along.
  EXPECT_THAT(two->flush(), FailsWith(ErrorCode::kIo));
  ASSERT_THAT(two->put("k", bytes_of(1)), IsOk());
  EXPECT_THAT(two->flush(), IsOk());
}

}  // namespace

}  // namespace penstock::store
