// A volume under the tests that all stores pass.
#include "volume/volume_store.h"

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

}  // namespace
}  // namespace penstock::volume

namespace penstock::store {
INSTANTIATE_TEST_SUITE_P(Volume, StoreConformance, ::testing::Values(volume::volume_kind()),
                         store_kind_name);
}  // namespace penstock::store
