#include "volume/served_volume.h"

#include <thread>

#include "volume/host_test_support.h"
#include "volume/volume_listing.h"
#include "volume/volume_store.h"

namespace penstock::volume {
namespace {

class Listener final : public ChangeListener {
 public:
  void changed(const VolumeUuid& volume, std::span<const Change> changes) override {
    volume_ = volume;
    for (const Change& change : changes) {
      if (change.directory != 0) names.push_back(change.name);
      if (change.ino != 0) inodes.push_back(change.ino);
    }
  }
  std::vector<std::string> names;
  std::vector<meta::Ino> inodes;
  VolumeUuid volume_{};
};

class ServedVolumeTest : public ::testing::Test {
 protected:
  ServedVolumeTest() : host_(new_host(fs_)), live_(*host_->open("v")) { feed_->add(&listener_); }
  ~ServedVolumeTest() override { feed_->remove(&listener_); }

  io::MemoryFileSystem fs_;
  std::shared_ptr<Host> host_;
  std::shared_ptr<Volume> live_;
  std::shared_ptr<ChangeFeed> feed_ = std::make_shared<ChangeFeed>();
  Listener listener_;
  std::shared_ptr<ServedVolume> served_ = std::make_shared<ServedVolume>(live_, feed_);
};

TEST_F(ServedVolumeTest, APutTellsOfItsNameAndOfWhatItReplaced) {
  const auto store = make_volume_store(served_, {.name = "v"});
  ASSERT_THAT(store->put("d/file", bytes_of("one")), IsOk());
  EXPECT_THAT(listener_.names, ::testing::IsSupersetOf({"d", "file"}));
  EXPECT_EQ(listener_.volume_, live_->uuid());
  const meta::Ino directory = live_->names().lookup(meta::kRoot, "d")->ino;
  const meta::Ino before = live_->names().lookup(directory, "file")->ino;
  listener_.names.clear();
  listener_.inodes.clear();
  ASSERT_THAT(store->put("d/file", bytes_of("two")), IsOk());
  EXPECT_THAT(listener_.names, ::testing::Contains("file"));
  EXPECT_THAT(listener_.inodes, ::testing::Contains(before));
  EXPECT_TRUE(feed_->changed_within(std::chrono::minutes(1)));
}

TEST_F(ServedVolumeTest, APutIsHiddenUntilItIsFinished) {
  const auto store = make_volume_store(served_, {.name = "v"});
  auto upload = *store->start_upload("file", {});
  ASSERT_THAT(upload->write(bytes_of("half")), IsOk());
  const auto entries = *live_->names().list(meta::kRoot, 0, 10);
  ASSERT_EQ(entries.size(), 1u);
  const std::string name = entries[0].name;
  EXPECT_TRUE(feed_->is_hidden(live_->uuid(), meta::kRoot, name));
  EXPECT_FALSE(feed_->is_hidden(VolumeUuid{}, meta::kRoot, name));
  EXPECT_TRUE(listener_.names.empty());
  ASSERT_THAT(upload->finish(), IsOk());
  EXPECT_FALSE(feed_->is_hidden(live_->uuid(), meta::kRoot, name));
  EXPECT_FALSE(feed_->is_hidden(live_->uuid(), meta::kRoot, "file"));
}

TEST_F(ServedVolumeTest, WhatIsGivenUpIsNotHiddenForEver) {
  const auto store = make_volume_store(served_, {.name = "v"});
  auto upload = *store->start_upload("file", {});
  const std::string name = live_->names().list(meta::kRoot, 0, 10)->front().name;
  upload.reset();
  EXPECT_FALSE(feed_->is_hidden(live_->uuid(), meta::kRoot, name));
  EXPECT_TRUE(live_->names().list(meta::kRoot, 0, 10)->empty());
}

TEST_F(ServedVolumeTest, RemovalsAreTold) {
  const auto store = make_volume_store(served_, {.name = "v"});
  ASSERT_THAT(store->put("file", bytes_of("x")), IsOk());
  const meta::Ino ino = live_->names().lookup(meta::kRoot, "file")->ino;
  listener_.names.clear();
  ASSERT_THAT(store->remove("file"), IsOk());
  EXPECT_EQ(listener_.names, std::vector<std::string>{"file"});
  EXPECT_THAT(listener_.inodes, ::testing::Contains(ino));
}

TEST(ChangeFeed, RemoveWaitsForCallsUnderWay) {
  ChangeFeed feed;
  Listener listener;
  std::jthread teller([&](const std::stop_token& stop) {
    const Change change{.ino = 7};
    while (!stop.stop_requested()) feed.tell({}, std::span(&change, 1));
  });
  for (int i = 0; i < 100; ++i) {
    feed.add(&listener);
    feed.remove(&listener);
    listener.inodes.clear();  // Nobody else touches it now: the thread sanitizer looks.
  }
}

}  // namespace
}  // namespace penstock::volume
