// A volume under the tests that all stores pass.
#include "volume/volume_store.h"

#include <fmt/core.h>

#include <thread>

#include "store/conformance.h"
#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

class VolumeBed : public store::StoreBed {
 public:
  std::unique_ptr<store::ObjectStore> open() override {
    if (!host_) {
      HostOptions options;
      options.file_system = &fs_;
      options.memory_bytes = 64 * kMiB;
      const auto made = create_host(kHostPath, {.name = "v"}, options);
      EXPECT_THAT(made, IsOk());
      host_ = *made;
    }
    return make_volume_store(*host_->open("v"), {.name = "v"});
  }

 private:
  io::MemoryFileSystem fs_;
  std::shared_ptr<Host> host_;
};

store::StoreKind volume_kind() {
  store::StoreKind kind;
  kind.name = "Volume";
  kind.make = [] { return std::make_unique<VolumeBed>(); };
  kind.nests = false;
  kind.part_bytes_max = 255;
  kind.attributes = store::Attributes::kOfFile;
  return kind;
}

TEST(VolumeStore, PastVersionsAreReadAsTheyWere) {
  io::MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v", .retention = std::nullopt});
  const std::shared_ptr<Volume> volume = *host->open("v");
  const auto live = make_volume_store(volume, {.name = "v"});
  ASSERT_THAT(live->put("a/b", bytes_of("before")), IsOk());
  const meta::Version version = *host->commit();
  ASSERT_THAT(live->put("a/b", bytes_of("after")), IsOk());
  ASSERT_THAT(live->put("a/c", bytes_of("new")), IsOk());
  ASSERT_THAT(host->commit(), IsOk());
  const auto past = make_view_store(*volume->at(version), {.name = "v"});
  EXPECT_EQ(*store::read_object(*past, "a/b", 100), bytes_of("before"));
  EXPECT_THAT(past->head("a/c"), FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(past->list({})->objects.size(), 1u);
  EXPECT_THAT(past->put("a/d", bytes_of("no")), FailsWith(ErrorCode::kPermission));
}

TEST(VolumeStore, DirectoriesGoWithTheirLastFile) {
  io::MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v"});
  const std::shared_ptr<Volume> volume = *host->open("v");
  const auto store = make_volume_store(volume, {.name = "v", .folder = "run"});
  for (const char* key : {"step-1/a/x", "step-1/b", "step-2/a"}) {
    ASSERT_THAT(store->put(key, bytes_of("x")), IsOk());
  }
  const meta::Ino run = volume->names().lookup(meta::kRoot, "run")->ino;
  const auto has = [&](const char* name) { return volume->names().lookup(run, name).ok(); };
  ASSERT_THAT(store->remove("step-1/a/x"), IsOk());
  EXPECT_TRUE(has("step-1"));
  ASSERT_THAT(store->remove("step-1/none"), IsOk());
  EXPECT_TRUE(has("step-1"));
  ASSERT_THAT(store->remove("step-1/b"), IsOk());
  EXPECT_FALSE(has("step-1"));
  ASSERT_THAT(store->remove("step-2/a"), IsOk());
  EXPECT_FALSE(has("step-2"));
  EXPECT_THAT(volume->names().lookup(meta::kRoot, "run"), IsOk()) << "the store's own stays";
}

TEST(VolumeStore, PutsMakeDirectoriesWhileOthersRemoveThem) {
  io::MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v"});
  const auto store = make_volume_store(*host->open("v"), {.name = "v"});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&store, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string key = fmt::format("a/b/{}", thread);
        EXPECT_THAT(store->put(key, bytes_of("x")), IsOk());
        EXPECT_THAT(store->remove(key), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(store->list({})->objects.empty());
}

}  // namespace
}  // namespace penstock::volume

namespace penstock::store {
INSTANTIATE_TEST_SUITE_P(Volume, StoreConformance, ::testing::Values(volume::volume_kind()),
                         store_kind_name);
}  // namespace penstock::store
