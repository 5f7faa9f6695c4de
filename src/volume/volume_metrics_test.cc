// What is counted is what was done.
#include "volume/volume_metrics.h"

#include <thread>

#include "volume/admin.h"
#include "volume/host_test_support.h"
#include "volume/log_lines.h"
#include "volume/moody_store.h"

namespace penstock::volume {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a counter has gone up by since.
class Since {
 public:
  explicit Since(const Counter& counter) : counter_(counter), before_(counter.value()) {}
  uint64_t operator()() const { return counter_.value() - before_; }

 private:
  const Counter& counter_;
  const uint64_t before_;
};

class VolumeMetricsTest : public ::testing::Test {
 protected:
  VolumeMetricsTest() {
    HostOptions options = quiet_options(fs_);
    options.segment_bytes = 8 * kMiB;
    options.writeback.journal_bytes = 16 * kMiB;
    options.io_timeout = std::chrono::milliseconds(200);
    options.wrap_store = [this](std::unique_ptr<store::ObjectStore> inner) {
      return std::make_unique<MoodyStore>(std::move(inner), mood_);
    };
    host_ = *create_host(kHostPath, {.name = "v"}, options);
    volume_ = *host_->open("v");
  }
  meta::Ino write(const std::string& name, const Bytes& bytes) {
    const meta::Ino file = make_file(*volume_, name);
    EXPECT_THAT(volume_->write(file, 0, bytes), IsOk());
    return file;
  }

  // On a busy machine storing may take longer than the short timeout that the tests wait for.
  void drain() {
    Result<void> drained = host_->drain(kNoDeadline);
    for (int i = 0; i < 50 && !drained.ok(); ++i) drained = host_->drain(kNoDeadline);
    ASSERT_THAT(drained, IsOk());
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<Mood> mood_ = std::make_shared<Mood>();
  std::shared_ptr<Host> host_;
  std::shared_ptr<Volume> volume_;
  VolumeMetrics& metrics_ = VolumeMetrics::global();
  HostGauges gauges_{kHostPath};
};

TEST_F(VolumeMetricsTest, WritesSyncsAndUploadsAreCounted) {
  const Since journal(metrics_.journal_bytes);
  const uint64_t syncs = metrics_.journal_sync_seconds.count();
  const uint64_t commits = metrics_.commit_seconds.count();
  const uint64_t uploads = metrics_.upload_seconds.count();
  const Since uploaded(metrics_.upload_bytes);
  write("a", random_bytes(100'000, 1));
  EXPECT_GE(journal(), 100'000u);
  EXPECT_LE(journal(), 110'000u);
  ASSERT_THAT(volume_->sync(), IsOk());
  EXPECT_EQ(metrics_.journal_sync_seconds.count(), syncs + 1);
  drain();
  EXPECT_GE(metrics_.commit_seconds.count(), commits + 1);
  EXPECT_EQ(metrics_.upload_seconds.count(), uploads + 1);
  EXPECT_GE(uploaded(), 100'000u);
}

TEST_F(VolumeMetricsTest, AFrameIsMissedOnceAndThenFound) {
  const meta::Ino file = write("a", random_bytes(100'000, 1));
  drain();
  const Since hits(metrics_.frame_hits);
  const Since misses(metrics_.frame_misses);
  const Since loaded(metrics_.load_bytes);
  (void)content_of(*volume_, file);
  EXPECT_EQ(misses(), 1u);
  EXPECT_EQ(hits(), 0u);
  EXPECT_GE(loaded(), 100'000u);
  (void)content_of(*volume_, file);
  EXPECT_EQ(misses(), 1u);
  EXPECT_EQ(hits(), 1u);
}

TEST_F(VolumeMetricsTest, WhatIsReadAheadIsCountedAndWhetherItWasOfUse) {
  const meta::Ino file = write("a", random_bytes(4 * kMiB, 1));
  drain();
  const Since ahead(metrics_.ahead_frames);
  const Since used(metrics_.ahead_used);
  const Since misses(metrics_.frame_misses);
  volume_->prefetch(file, 0, 4 * kMiB);
  EXPECT_GE(ahead(), 16u);
  EXPECT_EQ(misses(), 0u);
  EXPECT_EQ(used(), 0u);
  Bytes half(2 * kMiB);
  ASSERT_THAT(volume_->read(file, 0, half), IsOk());
  EXPECT_EQ(used(), ahead() / 2);
  ASSERT_THAT(volume_->read(file, 0, half), IsOk());
  EXPECT_EQ(used(), ahead() / 2);  // Each once.
  EXPECT_EQ(misses(), 0u);
}

TEST_F(VolumeMetricsTest, MergedPiecesAndDeletedObjectsAreCounted) {
  const Since pieces(metrics_.merged_pieces);
  const Since merged(metrics_.merged_bytes);
  const Since deleted(metrics_.gc_objects);
  const Since freed(metrics_.gc_bytes);
  const meta::Ino log = make_file(*volume_, "log");
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_THAT(volume_->write(log, i * 1000, random_bytes(1000, i + 1)), IsOk());
  }
  drain();
  EXPECT_EQ(pieces(), 100u);
  EXPECT_EQ(merged(), 100'000u);
  ASSERT_THAT(volume_->unlink(meta::kRoot, "log"), IsOk());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(host_->gc({.dry_run = true}), IsOk());
    EXPECT_EQ(i > 0 || deleted() == 0, true);  // A dry run deletes nothing.
    ASSERT_THAT(host_->gc({}), IsOk());
  }
  EXPECT_GE(deleted(), 1u);
  EXPECT_GE(freed(), 100'000u);
}

TEST_F(VolumeMetricsTest, WhatWaitsIsSeenInTheText) {
  write("a", random_bytes(100'000, 1));
  const std::unique_ptr<Admin> admin = make_local_admin(host_);
  Result<std::string> text = admin->metrics("v");
  ASSERT_THAT(text, IsOk());
  // With the headers of its record.
  EXPECT_GE(gauges_.pending_bytes.value(), 100'000);
  EXPECT_LT(gauges_.pending_bytes.value(), 101'000);
  EXPECT_GE(gauges_.pending_age_seconds.value(), 1);
  EXPECT_EQ(gauges_.journal_limit_bytes.value(), static_cast<int64_t>(16 * kMiB));
  EXPECT_THAT(
      *text, HasSubstr("penstock_volume_pending_bytes{volume=\"v\",directory=\"/var/train\"} 100"));
  drain();
  ASSERT_THAT(admin->metrics("v"), IsOk());
  EXPECT_EQ(gauges_.pending_bytes.value(), 0);
  EXPECT_EQ(gauges_.pending_age_seconds.value(), 0);
  EXPECT_THAT(admin->metrics("other"), FailsWith(ErrorCode::kNotFound));
}

TEST_F(VolumeMetricsTest, WhoeverLetsGoOfAVolumeCountsItNoMore) {
  write("a", random_bytes(100'000, 1));
  host_->note_metrics();
  EXPECT_GT(gauges_.pending_bytes.value(), 0);
  volume_.reset();
  host_.reset();
  EXPECT_EQ(gauges_.pending_bytes.value(), 0);
}

TEST_F(VolumeMetricsTest, AStoreThatIsAwayIsCountedNamedAndToldWhenItIsBack) {
  const LogLines log;
  const meta::Ino file = write("a", random_bytes(100'000, 1));
  drain();
  const Since failures(metrics_.load_failures);
  Bytes bytes(100'000);
  for (const Mood::Kind mood : {Mood::kFails, Mood::kHangs}) {
    mood_->reads = mood;
    const Result<size_t> got = volume_->read(file, 0, bytes);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().os_errno, EIO);
    EXPECT_THAT(got.error().detail, HasSubstr("object '"));  // Which one, and where.
    EXPECT_THAT(got.error().detail, HasSubstr("/var/train/blocks"));
  }
  EXPECT_EQ(failures(), 2u);
  EXPECT_EQ(gauges_.store_reads_fail.value(), 1);
  EXPECT_THAT(log.with("content cannot be read from the store"), HasSubstr("/var/train/blocks"));
  mood_->reads = Mood::kWell;
  ASSERT_THAT(volume_->read(file, 0, bytes), IsOk());
  EXPECT_EQ(gauges_.store_reads_fail.value(), 0);
  EXPECT_EQ(log.count("content is read from the store again"), 1u);
}

TEST_F(VolumeMetricsTest, UploadsThatFailAreCountedAndThenDone) {
  write("a", random_bytes(100'000, 1));
  const Since failures(metrics_.upload_failures);
  mood_->puts = Mood::kFails;
  EXPECT_FALSE(host_->drain(kNoDeadline).ok());
  EXPECT_GE(failures(), 1u);
  mood_->puts = Mood::kWell;
  drain();
}

TEST_F(VolumeMetricsTest, DamageIsCounted) {
  const meta::Ino file = write("a", random_bytes(100'000, 1));
  drain();
  const Since failures(metrics_.verification_failures);
  std::vector<std::string> folders = {kHostPath + "/blocks"};
  while (!folders.empty()) {
    const std::string folder = folders.back();
    folders.pop_back();
    ASSERT_THAT(fs_.list(folder,
                         [&](const io::DirectoryEntry& entry) {
                           const std::string path = folder + "/" + entry.name;
                           if (fs_.stat(path)->kind == io::FileKind::kDirectory) {
                             folders.push_back(path);
                           } else if (fs_.stat(path)->size > 100'000) {
                             auto object = *fs_.open(path, {.access = io::Access::kReadWrite});
                             EXPECT_THAT(object->write(50'000, random_bytes(10, 9)), IsOk());
                           }
                           return true;
                         }),
                IsOk());
  }
  Bytes bytes(100'000);
  EXPECT_FALSE(volume_->read(file, 0, bytes).ok());
  EXPECT_GE(failures(), 1u);
}

TEST_F(VolumeMetricsTest, WhoWaitsForRoomInVainIsToldAndSoIsTheEndOfIt) {
  const LogLines log;
  mood_->puts = Mood::kFails;
  const uint64_t waits = metrics_.room_wait_seconds.count();
  const meta::Ino file = make_file(*volume_, "a");
  Result<void> written;
  for (uint64_t at = 0; written.ok(); at += kMiB) {
    ASSERT_LT(at, 64 * kMiB);
    written = volume_->write(file, at, random_bytes(kMiB, at + 1));
  }
  EXPECT_EQ(written.error().os_errno, EIO);
  EXPECT_THAT(written.error().detail, HasSubstr("the journal in /var/train/journal is full"));
  EXPECT_THAT(written.error().detail, HasSubstr("/var/train/blocks"));
  EXPECT_EQ(metrics_.room_wait_seconds.count(), waits + 1);
  EXPECT_THAT(log.with("room again"), IsEmpty());
  mood_->puts = Mood::kWell;
  drain();
  ASSERT_THAT(volume_->write(file, 0, random_bytes(1000, 1)), IsOk());
  ASSERT_THAT(volume_->write(file, 0, random_bytes(1000, 2)), IsOk());
  EXPECT_EQ(log.count("room again"), 1u);
}

}  // namespace
}  // namespace penstock::volume
