// Damage that can be mended is; what somebody made is named, and left.
#include "meta/core.h"
#include "volume/host_test_support.h"
#include "volume/object_format.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostRepair : public ::testing::Test {
 protected:
  void SetUp() override {
    host_ = new_host(fs_);
    const meta::Ino file = make_file(**host_->open("v"), "a");
    ASSERT_THAT((*host_->open("v"))->write(file, 0, bytes_), IsOk());
    ASSERT_THAT(host_->drain(kNoDeadline), IsOk());
    store_ = *store::open_store("file:" + kHostPath + "/blocks", {.file_system = &fs_});
    object_ = store_->list({})->objects.at(0).key;
    space_ = *parse_uuid(object_.substr(0, 32));
    reopen();
  }
  void reopen() {
    host_.reset();
    host_ = same_host(fs_);
  }
  FsckReport repair() {
    const auto report = host_->fsck({.repair = true});
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *report : FsckReport();
  }
  size_t objects() { return store_->list({})->objects.size(); }
  void expect_content() { EXPECT_EQ(content_of(**host_->open("v"), "a"), bytes_); }

  MemoryFileSystem fs_;
  const Bytes bytes_ = random_bytes(100'000, 1);
  std::shared_ptr<Host> host_;
  std::unique_ptr<store::ObjectStore> store_;
  std::string object_;
  VolumeUuid space_{};
};

TEST_F(HostRepair, DoesNothingWhereAllIsWell) {
  const FsckReport report = repair();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.repaired, IsEmpty());
  expect_content();
}

TEST_F(HostRepair, ObjectsThatNothingRefersToGo) {
  ASSERT_THAT(store_->put(object_key(space_, {1, 99}), random_bytes(1'000, 2)), IsOk());
  const FsckReport report = repair();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.repaired, ElementsAre(HasSubstr("1 objects")));
  EXPECT_EQ(objects(), 1u);
  expect_content();
}

TEST_F(HostRepair, WhatADeadOwnerWasAboutToStoreIsForgotten) {
  meta::Database& database = host_->database();
  ASSERT_THAT(database.add_object({.id = {database.session(), 5}, .bytes = 100}), IsOk());
  ASSERT_THAT(host_->commit(), IsOk());
  EXPECT_THAT(repair().repaired, IsEmpty());  // Its owner lives.
  reopen();
  EXPECT_THAT(repair().repaired, ElementsAre(HasSubstr("1 objects")));
  EXPECT_THAT(repair().repaired, IsEmpty());
  expect_content();
}

TEST_F(HostRepair, WrongCountsAreCountedAgain) {
  host_.reset();
  {
    meta::Core core(fs_, kHostPath + "/metadata.db");
    ASSERT_THAT(core.connect({}), IsOk());
    // With these, garbage collection would have deleted all content.
    ASSERT_THAT(core.db().script("UPDATE object SET live_bytes = 0; UPDATE usage SET bytes = 1"),
                IsOk());
    ASSERT_THAT(core.db().run("COMMIT"), IsOk());
    core.abandon();
  }
  host_ = same_host(fs_);
  EXPECT_EQ(host_->fsck({})->findings.size(), 2u);
  const FsckReport report = repair();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.repaired.size(), 2u);
  ASSERT_THAT(host_->gc({}), IsOk());
  EXPECT_EQ((*host_->open("v"))->names().totals()->bytes, bytes_.size());
  expect_content();
}

TEST_F(HostRepair, FilesWithDamageAreNamedAndNothingIsDeleted) {
  ASSERT_THAT(store_->put(object_key(space_, {1, 99}), random_bytes(1'000, 2)), IsOk());
  Bytes object = *store::read_object(*store_, object_, kMiB);
  object[50'000] ^= std::byte{1};
  ASSERT_THAT(store_->put(object_, object), IsOk());
  FsckReport report = repair();
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].path, "/a");
  EXPECT_THAT(report.repaired, IsEmpty());
  EXPECT_EQ(objects(), 2u);
  // Found again, it is whole again.
  object[50'000] ^= std::byte{1};
  ASSERT_THAT(store_->put(object_, object), IsOk());
  report = repair();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(objects(), 1u);
  expect_content();
}

}  // namespace
}  // namespace penstock::volume
