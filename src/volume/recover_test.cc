#include "volume/recover.h"

#include "volume/host_files.h"
#include "volume/host_test_support.h"
#include "volume/journal_format.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kTo = "/saved";

Bytes file_bytes(io::FileSystem& fs, const std::string& path) {
  const auto text = io::read_file(fs, path, 64 * kMiB);
  EXPECT_THAT(text, IsOk()) << path;
  if (!text.ok()) return {};
  const auto bytes = std::as_bytes(std::span(*text));
  return {bytes.begin(), bytes.end()};
}

void put_file(io::FileSystem& fs, const std::string& path, std::span<const std::byte> bytes) {
  const auto file =
      fs.open(path, {.access = io::Access::kReadWrite, .create = io::Create::kTruncate});
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->write(0, bytes), IsOk());
}

std::vector<std::string> names_in(io::FileSystem& fs, const std::string& path) {
  std::vector<std::string> names;
  EXPECT_THAT(fs.list(path,
                      [&](const io::DirectoryEntry& entry) {
                        names.push_back(entry.name);
                        return true;
                      }),
              IsOk());
  std::ranges::sort(names);
  return names;
}

std::string list_of(io::FileSystem& fs, const std::string& to = kTo) {
  return *io::read_file(fs, to + "/operations.jsonl", kMiB);
}

meta::Ino write_file(Volume& volume, const std::string& name, const Bytes& bytes) {
  const meta::Ino ino = make_file(volume, name);
  EXPECT_THAT(volume.write(ino, 0, bytes), IsOk());
  EXPECT_THAT(volume.sync(), IsOk());
  return ino;
}

// "a" is committed, with its content in the journal; "b", "c" and "d" are in the journal only.
class Recover : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto host = new_host(fs_);
    const auto volume = *host->open("v");
    write_file(*volume, "a", a_);
    ASSERT_THAT(host->commit(), IsOk());
    write_file(*volume, "b", b_);
    write_file(*volume, "c", c_);
    d_ino_ = write_file(*volume, "d", d_);
    uuid_ = uuid_text(volume->uuid());
  }

  // The segment that holds these bytes, and where.
  std::pair<std::string, size_t> find(const Bytes& wanted) {
    for (const std::string& name : names_in(fs_, journal_)) {
      const Bytes bytes = file_bytes(fs_, journal_ + "/" + name);
      const auto at = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.begin() + 32);
      if (at != bytes.end()) return {journal_ + "/" + name, at - bytes.begin()};
    }
    ADD_FAILURE() << "not in the journal";
    return {};
  }
  void damage(const Bytes& content) {
    const auto [path, at] = find(content);
    Bytes bytes = file_bytes(fs_, path);
    bytes[at + 5] ^= std::byte{1};
    put_file(fs_, path, bytes);
  }
  void expect_does_not_open(ErrorCode code) {
    const auto host = open_host(kHostPath, quiet_options(fs_));
    ASSERT_THAT(host, FailsWith(code));
    EXPECT_THAT(host.error().detail, HasSubstr("penstock volume recover " + kHostPath + " --to"));
  }
  Result<RecoverReport> recover(bool discard = false, const std::string& to = kTo) {
    return recover_journal(fs_, kHostPath, {.to = to, .discard = discard});
  }

  MemoryFileSystem fs_;
  const std::string journal_ = kHostPath + "/journal";
  const Bytes a_ = random_bytes(1'000, 1);
  const Bytes b_ = random_bytes(1'000, 2);
  const Bytes c_ = random_bytes(1'000, 3);
  const Bytes d_ = random_bytes(1'000, 4);
  meta::Ino d_ino_ = 0;
  std::string uuid_;
};

TEST_F(Recover, SavesWhatIsNotCommittedAndChangesNothing) {
  const auto before = fs_.clone();
  const auto report = recover();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->operations, 6u);
  EXPECT_EQ(report->files, 3u);
  EXPECT_EQ(report->bytes, 3'000u);
  EXPECT_THAT(report->damage, IsEmpty());
  EXPECT_THAT(names_in(fs_, kTo + "/files/v"), ElementsAre("b", "c", "d"));
  EXPECT_EQ(file_bytes(fs_, kTo + "/files/v/c"), c_);
  EXPECT_THAT(list_of(fs_), HasSubstr("\"operation\": \"create\", \"parent\": 1, \"name\": \"b\""));
  EXPECT_THAT(names_in(fs_, kTo), Not(::testing::Contains("metadata-copy.db")));
  for (const std::string& name : names_in(*before, journal_)) {
    EXPECT_EQ(file_bytes(fs_, journal_ + "/" + name), file_bytes(*before, journal_ + "/" + name));
  }
  EXPECT_EQ(file_bytes(fs_, kHostPath + "/metadata.db"),
            file_bytes(*before, kHostPath + "/metadata.db"));
  const auto volume = *same_host(fs_)->open("v");
  EXPECT_EQ(content_of(*volume, "d"), d_);
}

TEST_F(Recover, DamageInTheMiddle) {
  damage(c_);
  expect_does_not_open(ErrorCode::kCorrupt);
  const auto report = recover();
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->damage, SizeIs(1));
  EXPECT_EQ(report->operations, 5u);
  EXPECT_EQ(file_bytes(fs_, kTo + "/files/v/b"), b_);
  // What was made behind the damage has a number, and no name that is certain.
  EXPECT_EQ(file_bytes(fs_, fmt::format("{}/inodes/{}/{}", kTo, uuid_, d_ino_)), d_);
  EXPECT_THAT(list_of(fs_), HasSubstr("\"name\": \"d\""));
  expect_does_not_open(ErrorCode::kCorrupt);
}

TEST_F(Recover, WithoutItsJournalTheVolumeOpensAgain) {
  damage(c_);
  const auto report = recover(/*discard=*/true);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->set_aside, journal_ + ".aside-1");
  EXPECT_THAT(names_in(fs_, report->set_aside), Not(IsEmpty()));
  {
    const auto host = same_host(fs_);
    const auto volume = *host->open("v");
    // It was committed, and its content lay in the journal.
    EXPECT_EQ(content_of(*volume, "a"), a_);
    EXPECT_THAT(volume->names().lookup(meta::kRoot, "b"), FailsWith(ErrorCode::kNotFound));
    EXPECT_THAT(host->fsck({})->findings, IsEmpty());
    write_file(*volume, "e", d_);
  }
  const auto host = same_host(fs_);
  EXPECT_EQ(content_of(**host->open("v"), "e"), d_);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(content_of(**host->open("v"), "a"), a_);
}

TEST_F(Recover, OfAnotherVolume) {
  {
    const auto other = create_host("/other", {.name = "w"}, quiet_options(fs_));
    ASSERT_THAT(other, IsOk());
    write_file(**(*other)->open("w"), "x", d_);
  }
  ASSERT_THAT(fs_.rename(journal_, "/kept"), IsOk());
  ASSERT_THAT(fs_.rename("/other/journal", journal_), IsOk());
  expect_does_not_open(ErrorCode::kCorrupt);
  const auto report = recover(/*discard=*/true);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->operations, 2u);
  EXPECT_THAT(list_of(fs_), HasSubstr("\"name\": \"x\""));
  const auto folders = names_in(fs_, kTo + "/inodes");
  ASSERT_THAT(folders, SizeIs(1));
  const std::string folder = kTo + "/inodes/" + folders[0];
  EXPECT_EQ(file_bytes(fs_, folder + "/" + names_in(fs_, folder)[0]), d_);
  // Where the right one is found again, it can be put back; until then the volume works without.
  EXPECT_THAT(*same_host(fs_)->volumes(), ElementsAre("v"));
}

TEST_F(Recover, TheDatabaseCameFromAnOlderCopy) {
  const Bytes old = file_bytes(fs_, kHostPath + "/metadata.db");
  Bytes last;
  {
    const auto host = same_host(fs_);
    const auto volume = *host->open("v");
    const meta::Ino a = volume->names().lookup(meta::kRoot, "a")->ino;
    for (int i = 0; i < 20; ++i) {
      ASSERT_THAT(volume->write(a, 0, random_bytes(15'000, 100 + i)), IsOk());
      ASSERT_THAT(host->drain(kNoDeadline), IsOk());
    }
    last = random_bytes(500, 200);
    ASSERT_THAT(volume->write(a, 2'000, last), IsOk());
    ASSERT_THAT(volume->sync(), IsOk());
  }
  put_file(fs_, kHostPath + "/metadata.db", old);
  expect_does_not_open(ErrorCode::kCorrupt);
  const auto report = recover(/*discard=*/true);
  ASSERT_THAT(report, IsOk());
  const Bytes saved = file_bytes(fs_, kTo + "/files/v/a");
  ASSERT_GE(saved.size(), 2'500u);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), saved.begin() + 2'000));
  EXPECT_EQ(report->set_aside, journal_ + ".aside-1");
  EXPECT_THAT(*same_host(fs_)->volumes(), ElementsAre("v"));
}

TEST_F(Recover, OfANewerVersion) {
  const std::string path = find(d_).first;
  Bytes bytes = file_bytes(fs_, path);
  SegmentHeader header = *parse_segment_header(bytes);
  header.version = kJournalVersion + 1;
  write_segment_header(bytes, header);
  put_file(fs_, path, bytes);
  expect_does_not_open(ErrorCode::kUnsupported);
  EXPECT_THAT(recover(/*discard=*/true), FailsWith(ErrorCode::kUnsupported));
  EXPECT_EQ(file_bytes(fs_, path), bytes);
}

TEST_F(Recover, RefusesWhatWouldHarm) {
  const auto host = same_host(fs_);
  EXPECT_THAT(recover(), FailsWith(ErrorCode::kBusy));
  EXPECT_THAT(recover_journal(fs_, "/nowhere", {.to = kTo}), FailsWith(ErrorCode::kNotFound));
}

TEST_F(Recover, DoesNotMixWithWhatIsThere) {
  ASSERT_THAT(recover(), IsOk());
  EXPECT_THAT(recover(), FailsWith(ErrorCode::kExists));
}

TEST_F(Recover, FollowsSizesAndZeros) {
  {
    const auto host = same_host(fs_);
    const auto volume = *host->open("v");
    ASSERT_THAT(host->commit(), IsOk());
    const meta::Ino b = volume->names().lookup(meta::kRoot, "b")->ino;
    ASSERT_THAT(volume->write(b, 0, c_), IsOk());
    ASSERT_THAT(volume->change(b, {.size = 600}), IsOk());
    ASSERT_THAT(volume->punch(b, 100, 50, /*zeros=*/false), IsOk());
    ASSERT_THAT(volume->rename(meta::kRoot, "b", meta::kRoot, "z", meta::Rename::kReplace), IsOk());
  }
  ASSERT_THAT(recover(), IsOk());
  Bytes expected = c_;
  expected.resize(600);
  std::fill_n(expected.begin() + 100, 50, std::byte{0});
  EXPECT_EQ(file_bytes(fs_, kTo + "/files/v/z"), expected);
}

}  // namespace
}  // namespace penstock::volume
