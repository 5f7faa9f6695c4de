// The same calls over a host of this process, and over the socket of another owner.
#include "volume/admin.h"

#include <thread>

#include "volume/control_test_support.h"

namespace penstock::volume {
namespace {

class AdminTest : public ::testing::TestWithParam<bool> {
 protected:
  AdminTest() {
    if (GetParam()) owner_ = volume_.own();
    admin_ = std::move(*open_admin(volume_.directory(), RealVolume::options()));
  }
  void put(const std::string& key, const std::string& content) {
    ASSERT_THAT(volume_.store()->put(key, bytes_of(content)), IsOk());
  }

  RealVolume volume_;
  std::shared_ptr<Owner> owner_;
  std::unique_ptr<Admin> admin_;
};

TEST_P(AdminTest, TellsWhatThereIs) {
  put("a", "hello");
  EXPECT_EQ(*admin_->volumes(), std::vector<std::string>{"v"});
  const auto status = admin_->status("v");
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->settings.name, "v");
  EXPECT_EQ(status->totals.bytes, 5u);
  EXPECT_EQ(status->host.pending.content_bytes > 0 || status->host.stored_bytes > 0, true);
  EXPECT_EQ(status->owner_pid, ::getpid());
  EXPECT_THAT(admin_->status("other"), FailsWith(ErrorCode::kNotFound));
}

TEST_P(AdminTest, TellsWhatWasCounted) {
  put("a", std::string(100'000, 'a'));
  const Result<std::string> text = admin_->metrics("v");
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, ::testing::HasSubstr("\npenstock_volume_journal_bytes_total{volume=\"v\"} "));
  EXPECT_THAT(*text, ::testing::HasSubstr("\npenstock_volume_journal_used_bytes{volume=\"v\","));
  EXPECT_THAT(admin_->metrics("other"), FailsWith(ErrorCode::kNotFound));
}

TEST_P(AdminTest, Sets) {
  meta::Settings settings = admin_->status("v")->settings;
  settings.quota.bytes = 1 << 20;
  settings.retention = std::nullopt;
  settings.codec = {codec::Codec::kZstd, 7};
  ASSERT_THAT(admin_->set_settings("v", settings), IsOk());
  const meta::Settings now = admin_->status("v")->settings;
  EXPECT_EQ(now.quota.bytes, 1u << 20);
  EXPECT_FALSE(now.retention);
  EXPECT_EQ(now.codec.codec, codec::Codec::kZstd);
  EXPECT_THAT(volume_.store()->put("large", Bytes(2 << 20)), FailsWith(ErrorCode::kNoSpace));
}

TEST_P(AdminTest, KeepsAndLetsGo) {
  put("a", "before");
  ASSERT_THAT(admin_->make_snapshot("v", "one", {}), IsOk());
  EXPECT_THAT(admin_->make_snapshot("v", "one", {}), FailsWith(ErrorCode::kExists));
  EXPECT_THAT(admin_->make_snapshot("v", "old", meta::Time{1}), FailsWith(ErrorCode::kNotFound));
  put("a", "after");
  ASSERT_THAT(admin_->commit(), IsOk());
  ASSERT_EQ(admin_->status("v")->snapshots.size(), 1u);
  ASSERT_THAT(admin_->clone("v", {}, "other"), IsOk());
  EXPECT_EQ(admin_->volumes()->size(), 2u);
  EXPECT_THAT(admin_->remove_snapshot("v", "one"), IsOk());
  EXPECT_THAT(admin_->remove_snapshot("v", "one"), FailsWith(ErrorCode::kNotFound));
  EXPECT_TRUE(admin_->status("v")->snapshots.empty());
}

TEST_P(AdminTest, DrainsCollectsAndChecks) {
  put("a", std::string(100'000, 'a'));
  put("b", std::string(100'000, 'b'));
  ASSERT_THAT(admin_->drain(deadline_in(std::chrono::seconds(20)), {}, {}), IsOk());
  EXPECT_EQ(admin_->status("v")->host.pending.content_bytes, 0u);
  ASSERT_THAT(volume_.store()->remove("a"), IsOk());
  ASSERT_THAT(volume_.store()->remove("b"), IsOk());
  const auto dry = admin_->gc({.dry_run = true});
  ASSERT_THAT(dry, IsOk());
  // What was removed is of the past with the next commit, and then is no more.
  uint64_t deleted = 0;
  EXPECT_TRUE(eventually([&] {
    const auto done = admin_->gc({});
    EXPECT_THAT(done, IsOk());
    deleted += done.ok() ? done->deleted : 0;
    return admin_->status("v")->host.objects == 0;
  }));
  EXPECT_EQ(deleted, 1u);
  put("c", "fine");
  const auto checked = admin_->fsck({});
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->files, 1u);
  EXPECT_TRUE(checked->findings.empty());
}

TEST_P(AdminTest, NamesWhatIsDamaged) {
  put("a", std::string(100'000, 'a'));
  ASSERT_THAT(admin_->drain(deadline_in(std::chrono::seconds(20)), {}, {}), IsOk());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(volume_.directory() + "/blocks")) {
    if (entry.is_regular_file() && entry.file_size() > 200) {
      std::filesystem::resize_file(entry, 100);
    }
  }
  const auto checked = admin_->fsck({.read_content = false});
  ASSERT_THAT(checked, IsOk());
  ASSERT_EQ(checked->findings.size(), 1u);
  EXPECT_EQ(checked->findings[0].path, "/a");
}

TEST_P(AdminTest, MendsAndSaysWhat) {
  put("a", std::string(100'000, 'a'));
  ASSERT_THAT(admin_->drain(deadline_in(std::chrono::seconds(20)), {}, {}), IsOk());
  ASSERT_THAT(volume_.store()->remove("a"), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(admin_->commit(), IsOk());
  EXPECT_TRUE(admin_->fsck({})->repaired.empty());
  const auto mended = admin_->fsck({.repair = true});
  ASSERT_THAT(mended, IsOk());
  EXPECT_EQ(mended->repaired.size(), 1u);  // The object that nothing refers to.
  EXPECT_EQ(admin_->status("v")->host.objects, 0u);
}

TEST_P(AdminTest, WhatTakesLongCanBeCancelled) {
  for (int i = 0; i < 20; ++i) put("f" + std::to_string(i), "x");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(admin_->fsck({.cancel = stop.get_token()}), FailsWith(ErrorCode::kCancelled));
  EXPECT_THAT(admin_->gc({.cancel = stop.get_token()}), FailsWith(ErrorCode::kCancelled));
  EXPECT_THAT(admin_->fsck({}), IsOk());
}

TEST_P(AdminTest, AVolumeThatIsBeingChangedIsNotTakenForDamaged) {
  const auto store = volume_.store();
  std::jthread writer([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const std::string key = "d" + std::to_string(i % 3) + "/f" + std::to_string(i % 20);
      (void)store->put(key, Bytes(static_cast<size_t>(i % 50) * 1000, std::byte{1}));
      if (i % 7 == 0) (void)store->remove("d0/f" + std::to_string(i % 20));
      if (i % 40 == 0) (void)admin_->drain(deadline_in(std::chrono::seconds(5)), {}, {});
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto checked = admin_->fsck({});
    ASSERT_THAT(checked, IsOk());
    for (const Finding& finding : checked->findings) ADD_FAILURE() << finding.path << finding.what;
    ASSERT_THAT(admin_->gc({}), IsOk());
  }
}

TEST_P(AdminTest, CompressionHoldsForWhatIsStoredFromThenOn) {
  const auto stored_after = [&](codec::Codec codec, const std::string& key) {
    meta::Settings settings = admin_->status("v")->settings;
    settings.codec = {codec, 0};
    EXPECT_THAT(admin_->set_settings("v", settings), IsOk());
    const uint64_t before = admin_->status("v")->host.stored_bytes;
    put(key, std::string(500'000, 'a'));
    EXPECT_THAT(admin_->drain(deadline_in(std::chrono::seconds(20)), {}, {}), IsOk());
    return admin_->status("v")->host.stored_bytes - before;
  };
  EXPECT_GE(stored_after(codec::Codec::kNone, "plain"), 500'000u);
  EXPECT_LT(stored_after(codec::Codec::kZstd, "packed"), 50'000u);
}

INSTANTIATE_TEST_SUITE_P(Admin, AdminTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Remote" : "Local"; });

}  // namespace
}  // namespace penstock::volume
