#include "volume/merger.h"

#include "store/counting_store.h"
#include "store/passing_store.h"
#include "volume/host_test_support.h"
#include "volume/journal_format.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;

size_t pieces_of(VolumeView& view, meta::Ino ino) {
  const auto extents = view.names().extents(ino, 0, kGiB);
  EXPECT_THAT(extents, IsOk());
  return extents.ok() ? extents->size() : 0;
}

// A log: pieces of `bytes`, one behind the other.
void append(Volume& volume, meta::Ino ino, Bytes& content, size_t pieces, size_t bytes) {
  for (size_t i = 0; i < pieces; ++i) {
    const Bytes piece = random_bytes(bytes, content.size() + i + 1);
    ASSERT_THAT(volume.write(ino, content.size(), piece), IsOk());
    content.insert(content.end(), piece.begin(), piece.end());
  }
}

void expect_sound(Host& host) {
  const auto report = host.fsck({});
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) ADD_FAILURE() << finding.path << finding.what;
}

TEST(Merger, SmallPiecesBecomeLargeOnes) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, 3'000, 1'000);
  EXPECT_EQ(pieces_of(*volume, log), 3'000u);
  const meta::Inode before = *volume->names().inode(log);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_LE(pieces_of(*volume, log), 4u);
  const meta::Inode after = *volume->names().inode(log);
  EXPECT_EQ(after.data_version, before.data_version);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.mtime, before.mtime);
  EXPECT_EQ(after.ctime, before.ctime);
  EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
  expect_sound(*host);
}

TEST(Merger, GoesOnWhereItWas) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  for (int round = 0; round < 100; ++round) {
    append(*volume, log, content, 20, 500);
    ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  }
  EXPECT_LE(pieces_of(*volume, log), 60u);  // Of 2,000.
  EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
  expect_sound(*host);
}

TEST(Merger, LeavesAFewAlone) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, kMergedPiecesMin - 1, 1'000);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(pieces_of(*volume, log), kMergedPiecesMin - 1);
}

TEST(Merger, HolesAndZerosStay) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, 100, 1'000);
  ASSERT_THAT(volume->punch(log, 20'500, 10'000, /*zeros=*/false), IsOk());
  ASSERT_THAT(volume->punch(log, 60'500, 10'000, /*zeros=*/true), IsOk());
  std::fill_n(content.begin() + 20'500, 10'000, std::byte{0});
  std::fill_n(content.begin() + 60'500, 10'000, std::byte{0});
  const uint64_t allocated = volume->names().inode(log)->allocated;
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(pieces_of(*volume, log), 4u);  // Three of bytes, one of zeros.
  EXPECT_EQ(volume->names().inode(log)->allocated, allocated);
  EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
  expect_sound(*host);
}

TEST(Merger, PastVersionsKeepTheirPieces) {
  MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v", .retention = std::nullopt});
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, 50, 1'000);
  const Bytes then = content;
  const meta::Version version = *host->commit();
  append(*volume, log, content, 50, 1'000);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(pieces_of(*volume, log), 1u);
  const auto past = *volume->at(version);
  EXPECT_EQ(pieces_of(*past, log), 50u);
  EXPECT_TRUE(same_bytes(content_of(*past, log), then));
  ASSERT_THAT(host->gc({}), IsOk());
  EXPECT_TRUE(same_bytes(content_of(*past, log), then));
  EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
  expect_sound(*host);
}

TEST(Merger, ClonesKeepTheirPieces) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, 50, 1'000);
  ASSERT_THAT(host->clone("v", meta::kLive, "w"), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(pieces_of(*volume, log), 1u);
  const auto clone = *host->open("w");
  EXPECT_EQ(pieces_of(*clone, log), 50u);
  EXPECT_TRUE(same_bytes(content_of(*clone, log), content));
  expect_sound(*host);
}

// Calls back while an object is put: what happens then has happened since the bytes were read.
class MeanwhileStore final : public store::PassingStore {
 public:
  MeanwhileStore(std::unique_ptr<store::ObjectStore> inner, std::function<void()>& meanwhile)
      : PassingStore(std::move(inner)), meanwhile_(meanwhile) {}
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    if (const auto call = std::exchange(meanwhile_, nullptr)) call();
    PassingStore::async_put(std::move(key), bytes, std::move(options), std::move(done));
  }

 private:
  std::function<void()>& meanwhile_;
};

TEST(Merger, WhatChangesMeanwhileWins) {
  for (int change = 0; change < 5; ++change) {
    SCOPED_TRACE(change);
    MemoryFileSystem fs;
    std::function<void()> meanwhile;
    HostOptions options = quiet_options(fs);
    options.wrap_store = [&](std::unique_ptr<store::ObjectStore> inner) {
      return std::make_unique<MeanwhileStore>(std::move(inner), meanwhile);
    };
    const auto host = *create_host(kHostPath, {.name = "v"}, options);
    const auto volume = *host->open("v");
    const meta::Ino log = make_file(*volume, "log");
    Bytes content;
    append(*volume, log, content, 50, 1'000);
    const Bytes other = random_bytes(700, 99);
    meanwhile = [&] {
      if (change == 0) {
        ASSERT_THAT(volume->write(log, 10'200, other), IsOk());
        std::ranges::copy(other, content.begin() + 10'200);
      } else if (change == 1) {
        ASSERT_THAT(volume->change(log, {.size = 5'500}), IsOk());
        content.resize(5'500);
      } else if (change == 2) {
        ASSERT_THAT(volume->punch(log, 700, 900, /*zeros=*/false), IsOk());
        std::fill_n(content.begin() + 700, 900, std::byte{0});
      } else if (change == 3) {
        ASSERT_THAT(host->commit(), IsOk());  // That changes nothing of it.
      } else {
        ASSERT_THAT(volume->unlink(meta::kRoot, "log"), IsOk());
      }
    };
    ASSERT_THAT(host->drain(kNoDeadline), IsOk());
    EXPECT_FALSE(meanwhile);
    if (change < 4) {
      EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
    }
    if (change == 3) {
      EXPECT_EQ(pieces_of(*volume, log), 1u);
    }
    expect_sound(*host);
  }
}

TEST(Merger, TriesAgainWhenTheStoreFailed) {
  MemoryFileSystem fs;
  bool broken = true;
  class FailingStore final : public store::PassingStore {
   public:
    FailingStore(std::unique_ptr<store::ObjectStore> inner, bool& broken)
        : PassingStore(std::move(inner)), broken_(broken) {}
    void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                   store::Done<store::ObjectInfo> done) override {
      // One that is not there any more.
      if (broken_) return PassingStore::async_copy("none", key, {}, std::move(done));
      PassingStore::async_put(std::move(key), bytes, std::move(options), std::move(done));
    }

   private:
    bool& broken_;
  };
  HostOptions options = quiet_options(fs);
  options.wrap_store = [&](std::unique_ptr<store::ObjectStore> inner) {
    return std::make_unique<FailingStore>(std::move(inner), broken);
  };
  const auto host = *create_host(kHostPath, {.name = "v"}, options);
  const auto volume = *host->open("v");
  const meta::Ino log = make_file(*volume, "log");
  Bytes content;
  append(*volume, log, content, 50, 1'000);
  EXPECT_FALSE(host->drain(kNoDeadline).ok());
  EXPECT_EQ(pieces_of(*volume, log), 50u);
  broken = false;
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(pieces_of(*volume, log), 1u);
  EXPECT_TRUE(same_bytes(content_of(*volume, log), content));
}

// Bytes in the journal and in objects for each that was written, by `write` in its round.
double stored_for_each(const std::function<void(Volume&, meta::Ino, int round)>& write,
                       uint64_t base_bytes, size_t piece, size_t pieces_in_round) {
  MemoryFileSystem fs;
  store::CountingStore* counting = nullptr;
  HostOptions options = quiet_options(fs);
  options.segment_bytes = 4 * kMiB;
  options.writeback.journal_bytes = 16 * options.segment_bytes;
  options.wrap_store = [&](std::unique_ptr<store::ObjectStore> inner) {
    auto made = std::make_unique<store::CountingStore>(std::move(inner));
    counting = made.get();
    return made;
  };
  const auto host = *create_host(kHostPath, {.name = "v", .codec = {codec::Codec::kNone}}, options);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "file");
  if (base_bytes > 0) {
    EXPECT_THAT(volume->write(file, 0, random_bytes(base_bytes, 1)), IsOk());
  }
  EXPECT_THAT(host->drain(kNoDeadline), IsOk());
  const uint64_t before = counting->counts(store::CallKind::kPut).bytes;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    write(*volume, file, round);
    EXPECT_THAT(host->drain(kNoDeadline), IsOk());
  }
  const auto operation = encode_operation({{}, 0, WriteOp{file, 0}});
  const uint64_t record = total_bytes(operation.size(), piece);
  const uint64_t put = counting->counts(store::CallKind::kPut).bytes - before;
  const auto count = static_cast<double>(kRounds * pieces_in_round);
  return (static_cast<double>(put) + count * static_cast<double>(record)) /
         (count * static_cast<double>(piece));
}

TEST(Merger, SmallAppendsAreStoredLittleMoreThanTwice) {
  Bytes content;
  const double stored = stored_for_each(
      [&](Volume& volume, meta::Ino ino, int) {
        for (int i = 0; i < 300; ++i) {
          append(volume, ino, content, 1, 1024);
          ASSERT_THAT(volume.sync(), IsOk());
        }
      },
      0, 1024, 300);
  EXPECT_LT(stored, 4.0);
  RecordProperty("stored_per_byte", std::to_string(stored));
}

TEST(Merger, SmallOverwritesAreStoredLessThanFourTimes) {
  std::mt19937_64 random(1);
  const double stored = stored_for_each(
      [&](Volume& volume, meta::Ino ino, int) {
        for (int i = 0; i < 300; ++i) {
          const Bytes piece = random_bytes(4096, random());
          ASSERT_THAT(volume.write(ino, random() % (8 * kMiB / 4096) * 4096, piece), IsOk());
          ASSERT_THAT(volume.sync(), IsOk());
        }
      },
      8 * kMiB, 4096, 300);
  EXPECT_LT(stored, 4.0);
  RecordProperty("stored_per_byte", std::to_string(stored));
}

}  // namespace
}  // namespace penstock::volume
