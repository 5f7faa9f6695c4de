// What io.h promises about FileSystem and the helpers over it.
#include "io/file_system_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <thread>

namespace penstock::io {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::map<std::string, FileKind> listing(FileSystem& fs, const std::string& path) {
  std::map<std::string, FileKind> entries;
  PENSTOCK_EXPECT_OK(fs.list(path, [&](const DirectoryEntry& entry) {
    EXPECT_TRUE(entries.emplace(entry.name, entry.kind).second) << entry.name << " came twice";
    return true;
  }));
  return entries;
}

template <typename T>
int errno_of(const Result<T>& result) {
  return result.ok() ? 0 : result.error().os_errno;
}

TEST_P(FileSystemConformance, CreateNeverNeedsTheFile) {
  PENSTOCK_EXPECT_ERROR(try_open("f", Create::kNever), kNotFound);
  EXPECT_EQ(errno_of(try_open("f", Create::kNever)), ENOENT);
  EXPECT_THAT(listing(fs(), directory()), IsEmpty());
  make("f", "abc");
  EXPECT_EQ(read_string(**try_open("f", Create::kNever), 0, 10), "abc");
}

TEST_P(FileSystemConformance, CreateIfMissingKeepsWhatIsThere) {
  PENSTOCK_EXPECT_OK(try_open("f", Create::kIfMissing));
  EXPECT_EQ(contents("f"), "");
  make("f", "abc");
  PENSTOCK_EXPECT_OK(try_open("f", Create::kIfMissing));
  EXPECT_EQ(contents("f"), "abc");
}

TEST_P(FileSystemConformance, CreateMustNotExistRefusesWhatIsThere) {
  PENSTOCK_EXPECT_OK(try_open("f", Create::kMustNotExist));
  PENSTOCK_EXPECT_ERROR(try_open("f", Create::kMustNotExist), kExists);
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("link")));
  PENSTOCK_EXPECT_ERROR(try_open("link", Create::kMustNotExist), kExists);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("nowhere")), kNotFound);
}

TEST_P(FileSystemConformance, CreateTruncateEmpties) {
  PENSTOCK_EXPECT_OK(try_open("f", Create::kTruncate));
  make("f", "abc");
  PENSTOCK_EXPECT_OK(try_open("f", Create::kTruncate));
  EXPECT_EQ(contents("f"), "");
}

TEST_P(FileSystemConformance, PermissionsAreThoseAskedFor) {
  OpenOptions private_file = options(Create::kMustNotExist);
  private_file.permissions = 0600;  // Nothing here that a usual umask takes away.
  PENSTOCK_EXPECT_OK(fs().open(path("f"), private_file));
  EXPECT_EQ(fs().stat(path("f"))->mode, 0600u);
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d"), 0700));
  EXPECT_EQ(fs().stat(path("d"))->mode, 0700u);
}

TEST_P(FileSystemConformance, OpenNeedsItsParentAndNoDirectory) {
  PENSTOCK_EXPECT_ERROR(try_open("no/f", Create::kIfMissing), kNotFound);
  make("f");
  PENSTOCK_EXPECT_ERROR(try_open("f/g", Create::kIfMissing), kNotFound);
  EXPECT_EQ(errno_of(try_open("f/g", Create::kIfMissing)), ENOTDIR);
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_ERROR(try_open("d", Create::kNever), kInvalid);
  PENSTOCK_EXPECT_ERROR(try_open("d", Create::kMustNotExist), kExists);
  EXPECT_EQ(errno_of(try_open("d", Create::kNever)), EISDIR);
}

TEST_P(FileSystemConformance, PlainOnlyFollowsNoLink) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("f", path("link")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("dangling")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("d", path("way")));
  make("d/g", "def");
  for (const Access access : {Access::kRead, Access::kWrite, Access::kReadWrite}) {
    for (const Create create : {Create::kNever, Create::kIfMissing, Create::kTruncate}) {
      OpenOptions plain = options(create, access);
      plain.plain_only = true;
      PENSTOCK_EXPECT_ERROR(fs().open(path("link"), plain), kInvalid);
      PENSTOCK_EXPECT_ERROR(fs().open(path("dangling"), plain), kInvalid);
      PENSTOCK_EXPECT_ERROR(fs().open(path("d"), plain), kInvalid);
      PENSTOCK_EXPECT_OK(fs().open(path("way/g"), plain));
    }
  }
  EXPECT_EQ(contents("f"), "abc");
  PENSTOCK_EXPECT_ERROR(fs().stat(path("nowhere")), kNotFound);
  OpenOptions plain = options(Create::kNever);
  plain.plain_only = true;
  EXPECT_EQ(read_string(**fs().open(path("f"), plain), 0, 10), "abc");
  PENSTOCK_EXPECT_ERROR(fs().open(path("no"), plain), kNotFound);
}

TEST_P(FileSystemConformance, ADirectoryOpensToBeGivenAttributes) {
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d"), 0700));
  const auto directory = fs().open(path("d"), {});
  ASSERT_TRUE(directory.ok()) << directory.error().to_string();
  EXPECT_EQ((*directory)->stat()->kind, FileKind::kDirectory);
  PENSTOCK_EXPECT_OK((*directory)->set_attributes(0711, 1'000'000'000));
  EXPECT_EQ(fs().stat(path("d"))->mode, 0711u);
  EXPECT_EQ(fs().stat(path("d"))->mtime_ns, 1'000'000'000);
  std::byte byte;
  EXPECT_EQ(errno_of((*directory)->read(0, {&byte, 1})), EISDIR);
}

TEST_P(FileSystemConformance, WithoutRequireModeAFileOpensInSomeMode) {
  OpenOptions lenient = options(Create::kIfMissing);
  lenient.require_mode = false;
  const auto file = fs().open(path("f"), lenient);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_TRUE((*file)->mode() == GetParam().mode || (*file)->mode() == CacheMode::kBuffered);
  PENSTOCK_EXPECT_OK(write_string(**file, 0, "abc"));
  EXPECT_EQ(contents("f"), "abc");
}

TEST_P(FileSystemConformance, NamesAreBytes) {
  const std::string odd = "\xff\x01 \n*\\";
  make(odd, "odd");
  EXPECT_THAT(listing(fs(), directory()), ElementsAre(Pair(odd, FileKind::kFile)));
  EXPECT_EQ(contents(odd), "odd");
  make(std::string(255, 'n'));
  PENSTOCK_EXPECT_ERROR(try_open(std::string(256, 'n'), Create::kIfMissing), kInvalid);
}

TEST_P(FileSystemConformance, StatFollowsLinksAndStatLinkDoesNot) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_symlink("f", path("link")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("dangling")));
  EXPECT_EQ(fs().stat(path("link"))->inode, fs().stat(path("f"))->inode);
  EXPECT_EQ(fs().stat(path("link"))->kind, FileKind::kFile);
  EXPECT_EQ(fs().stat_link(path("link"))->kind, FileKind::kSymlink);
  EXPECT_EQ(fs().stat_link(path("f"))->kind, FileKind::kFile);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("dangling")), kNotFound);
  EXPECT_EQ(fs().stat_link(path("dangling"))->kind, FileKind::kSymlink);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("nowhere")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().stat_link(path("nowhere")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().stat(""), kNotFound);
  EXPECT_EQ(fs().stat(directory())->kind, FileKind::kDirectory);
}

TEST_P(FileSystemConformance, LinksToDirectoriesLeadThrough) {
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("d", path("link")));
  make("link/f", "abc");
  EXPECT_EQ(contents("d/f"), "abc");
  EXPECT_EQ(contents("d/../link/./f"), "abc");
  PENSTOCK_EXPECT_OK(fs().make_symlink("loop", path("loop")));
  PENSTOCK_EXPECT_ERROR(fs().stat(path("loop")), kInvalid);
}

TEST_P(FileSystemConformance, MakeSymlinkKeepsTheTargetAsItIsWritten) {
  for (const std::string target : {"nowhere", "/abs//olute/", "..", "a/../\xff\n"}) {
    PENSTOCK_EXPECT_OK(fs().make_symlink(target, path("link")));
    EXPECT_EQ(*fs().read_link(path("link")), target);
    EXPECT_EQ(fs().stat_link(path("link"))->kind, FileKind::kSymlink);
    EXPECT_EQ(fs().stat_link(path("link"))->size, target.size());
    PENSTOCK_EXPECT_OK(fs().remove(path("link")));
  }
  make("f");
  PENSTOCK_EXPECT_ERROR(fs().read_link(path("f")), kInvalid);
  PENSTOCK_EXPECT_ERROR(fs().read_link(path("no")), kNotFound);
}

TEST_P(FileSystemConformance, MakeSymlinkNeedsAFreeNameAParentAndATarget) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("dangling")));
  for (const char* name : {"f", "d", "d/", "dangling"}) {
    PENSTOCK_EXPECT_ERROR(fs().make_symlink("x", path(name)), kExists);
  }
  EXPECT_EQ(contents("f"), "abc");
  EXPECT_EQ(*fs().read_link(path("dangling")), "nowhere");
  PENSTOCK_EXPECT_ERROR(fs().make_symlink("x", path("no/link")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_symlink("x", path("f/link")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_symlink("x", path("new/")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_symlink("", path("link")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_symlink(std::string(5000, 'x'), path("link")), kInvalid);
  PENSTOCK_EXPECT_ERROR(fs().stat_link(path("link")), kNotFound);
}

TEST_P(FileSystemConformance, OpenCanRefuseLinks) {
  PENSTOCK_EXPECT_OK(make_directories(fs(), path("d/sub")));
  make("d/sub/f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_symlink("d", path("to-d")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("f", path("d/sub/to-f")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("dangling")));
  const auto try_strictly = [this](std::string_view name, Create create) {
    OpenOptions strict = options(create);
    strict.follow_links = false;
    return fs().open(path(name), strict);
  };
  EXPECT_EQ(read_string(**try_strictly("d/sub/f", Create::kNever), 0, 10), "abc");
  EXPECT_EQ(read_string(**try_strictly("d/./sub/../sub/f", Create::kIfMissing), 0, 10), "abc");
  for (const char* name : {"to-d/sub/f", "d/sub/to-f", "dangling", "dangling/f", "to-d/no"}) {
    for (const Create create : {Create::kNever, Create::kIfMissing, Create::kTruncate}) {
      PENSTOCK_EXPECT_ERROR(try_strictly(name, create), kInvalid);
      EXPECT_EQ(errno_of(try_strictly(name, create)), ELOOP) << name;
    }
  }
  EXPECT_EQ(contents("d/sub/f"), "abc");
  PENSTOCK_EXPECT_ERROR(try_strictly("d/sub/to-f", Create::kMustNotExist), kExists);
  PENSTOCK_EXPECT_ERROR(try_strictly("to-d/new", Create::kMustNotExist), kInvalid);
  PENSTOCK_EXPECT_ERROR(try_strictly("d/no", Create::kNever), kNotFound);
  PENSTOCK_EXPECT_ERROR(try_strictly("d/no/f", Create::kIfMissing), kNotFound);
  PENSTOCK_EXPECT_ERROR(try_strictly("d/sub/f/g", Create::kIfMissing), kNotFound);
  PENSTOCK_EXPECT_OK(try_strictly("d/new", Create::kMustNotExist));
  EXPECT_EQ(fs().stat(path("d/new"))->mode, fs().stat(path("d/sub/f"))->mode);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("nowhere")), kNotFound);
}

TEST_P(FileSystemConformance, RenameMoves) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  const uint64_t inode = fs().stat(path("f"))->inode;
  PENSTOCK_EXPECT_OK(fs().rename(path("f"), path("d/g")));
  EXPECT_EQ(fs().stat(path("d/g"))->inode, inode);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("f")), kNotFound);
  PENSTOCK_EXPECT_OK(fs().rename(path("d"), path("e"), RenameMode::kNoReplace));
  EXPECT_EQ(contents("e/g"), "abc");
  PENSTOCK_EXPECT_ERROR(fs().rename(path("d"), path("x")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().rename(path("e"), path("no/x")), kNotFound);
  PENSTOCK_EXPECT_OK(fs().rename(path("e"), path("e")));
}

TEST_P(FileSystemConformance, RenameReplacesOrRefuses) {
  make("f", "new");
  make("g", "old");
  PENSTOCK_EXPECT_ERROR(fs().rename(path("f"), path("g"), RenameMode::kNoReplace), kExists);
  EXPECT_EQ(contents("f"), "new");
  EXPECT_EQ(contents("g"), "old");
  const auto old = *try_open("g", Create::kNever);
  const auto moved = *try_open("f", Create::kNever);
  PENSTOCK_EXPECT_OK(fs().rename(path("f"), path("g")));
  EXPECT_EQ(contents("g"), "new");
  EXPECT_THAT(listing(fs(), directory()), ElementsAre(Pair("g", FileKind::kFile)));
  EXPECT_EQ(read_string(*old, 0, 10), "old");
  PENSTOCK_EXPECT_OK(write_string(*moved, 0, "NEW"));
  EXPECT_EQ(contents("g"), "NEW");
}

TEST_P(FileSystemConformance, RenameExchanges) {
  for (const char* name : {"d", "e", "d/old", "e/new"}) {
    PENSTOCK_EXPECT_OK(fs().make_directory(path(name)));
  }
  make("f", "abc");
  const Result<void> done = fs().rename(path("d"), path("e"), RenameMode::kExchange);
  if (!done.ok() && done.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "not here";
  PENSTOCK_EXPECT_OK(done);
  EXPECT_EQ(fs().stat(path("d/new"))->kind, FileKind::kDirectory);
  EXPECT_EQ(fs().stat(path("e/old"))->kind, FileKind::kDirectory);
  PENSTOCK_EXPECT_OK(fs().rename(path("f"), path("d"), RenameMode::kExchange));
  EXPECT_EQ(contents("d"), "abc");
  EXPECT_EQ(fs().stat(path("f/new"))->kind, FileKind::kDirectory);
  PENSTOCK_EXPECT_ERROR(fs().rename(path("f"), path("x"), RenameMode::kExchange), kNotFound);
}

TEST_P(FileSystemConformance, AFileStaysUntilItsLastNameGoes) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_OK(fs().make_link(path("f"), path("d/g")));
  EXPECT_EQ(fs().stat(path("f"))->links, 2u);
  EXPECT_EQ(fs().stat(path("f"))->inode, fs().stat(path("d/g"))->inode);
  PENSTOCK_EXPECT_ERROR(fs().make_link(path("f"), path("d/g")), kExists);
  PENSTOCK_EXPECT_ERROR(fs().make_link(path("none"), path("h")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_link(path("d"), path("h")), kUnsupported);
  PENSTOCK_EXPECT_OK(fs().remove(path("f")));
  EXPECT_EQ(contents("d/g"), "abc");
  EXPECT_EQ(fs().stat(path("d/g"))->links, 1u);
  PENSTOCK_EXPECT_OK(fs().remove(path("d/g")));
  PENSTOCK_EXPECT_ERROR(fs().stat(path("d/g")), kNotFound);
}

TEST_P(FileSystemConformance, RenameKeepsFilesAndDirectoriesApart) {
  make("f");
  for (const char* name : {"d", "empty", "full", "full/inside"}) {
    PENSTOCK_EXPECT_OK(fs().make_directory(path(name)));
  }
  EXPECT_EQ(errno_of(fs().rename(path("f"), path("d"))), EISDIR);
  EXPECT_EQ(errno_of(fs().rename(path("d"), path("f"))), ENOTDIR);
  PENSTOCK_EXPECT_ERROR(fs().rename(path("d"), path("full")), kExists);
  PENSTOCK_EXPECT_ERROR(fs().rename(path("full"), path("full/inside/x")), kInvalid);
  PENSTOCK_EXPECT_ERROR(fs().rename(path("d"), path("empty"), RenameMode::kNoReplace), kExists);
  PENSTOCK_EXPECT_OK(fs().rename(path("full"), path("empty")));
  EXPECT_EQ(fs().stat(path("empty/inside"))->kind, FileKind::kDirectory);
  PENSTOCK_EXPECT_ERROR(fs().stat(path("full")), kNotFound);
}

TEST_P(FileSystemConformance, RemoveTakesAFileOrALink) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().make_symlink("f", path("link")));
  PENSTOCK_EXPECT_OK(fs().remove(path("link")));
  EXPECT_EQ(contents("f"), "abc");
  PENSTOCK_EXPECT_OK(fs().remove(path("f")));
  PENSTOCK_EXPECT_ERROR(fs().remove(path("f")), kNotFound);
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  EXPECT_EQ(errno_of(fs().remove(path("d"))), EISDIR);
  EXPECT_EQ(fs().stat(path("d"))->kind, FileKind::kDirectory);
}

TEST_P(FileSystemConformance, ARemovedFileLivesWhileItIsOpen) {
  const auto file = make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().remove(path("f")));
  PENSTOCK_EXPECT_OK(write_string(*file, 3, "def"));
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_EQ(read_string(*file, 0, 10), "abcdef");
  EXPECT_EQ(file->stat()->links, 0u);
  make("f", "other");
  EXPECT_EQ(read_string(*file, 0, 10), "abcdef");
}

TEST_P(FileSystemConformance, RemoveDirectoryTakesAnEmptyOne) {
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  make("d/f");
  PENSTOCK_EXPECT_ERROR(fs().remove_directory(path("d")), kExists);
  PENSTOCK_EXPECT_ERROR(fs().remove_directory(path("d/f")), kNotFound);
  PENSTOCK_EXPECT_OK(fs().remove(path("d/f")));
  PENSTOCK_EXPECT_OK(fs().remove_directory(path("d")));
  PENSTOCK_EXPECT_ERROR(fs().remove_directory(path("d")), kNotFound);
}

TEST_P(FileSystemConformance, MakeDirectoryNeedsAFreeNameAndAParent) {
  make("f");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_ERROR(fs().make_directory(path("d")), kExists);
  PENSTOCK_EXPECT_ERROR(fs().make_directory(path("f")), kExists);
  PENSTOCK_EXPECT_ERROR(fs().make_directory(path("no/d")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().make_directory(path("f/d")), kNotFound);
  EXPECT_EQ(fs().stat(path("d"))->kind, FileKind::kDirectory);
}

TEST_P(FileSystemConformance, ListShowsEveryEntryOnce) {
  EXPECT_THAT(listing(fs(), directory()), IsEmpty());
  make("f");
  PENSTOCK_EXPECT_OK(fs().make_directory(path("d")));
  PENSTOCK_EXPECT_OK(fs().make_symlink("nowhere", path("link")));
  EXPECT_THAT(listing(fs(), directory()),
              ElementsAre(Pair("d", FileKind::kDirectory), Pair("f", FileKind::kFile),
                          Pair("link", FileKind::kSymlink)));
  for (int i = 0; i < 300; ++i) make("d/" + std::to_string(i));
  EXPECT_EQ(listing(fs(), path("d")).size(), 300u);
}

TEST_P(FileSystemConformance, ListStopsWhenToldAndRefusesWhatIsNoDirectory) {
  for (const char* name : {"a", "b", "c"}) make(name);
  int seen = 0;
  PENSTOCK_EXPECT_OK(fs().list(directory(), [&](const DirectoryEntry&) { return ++seen < 2; }));
  EXPECT_EQ(seen, 2);
  const auto visit = [](const DirectoryEntry&) { return true; };
  PENSTOCK_EXPECT_ERROR(fs().list(path("no"), visit), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().list(path("a"), visit), kNotFound);
}

TEST_P(FileSystemConformance, EntriesMayGoWhileListed) {
  std::set<std::string> made;
  for (int i = 0; i < 300; ++i) {
    made.insert(std::to_string(i));
    make(std::to_string(i));
  }
  std::set<std::string> seen;
  PENSTOCK_EXPECT_OK(fs().list(directory(), [&](const DirectoryEntry& entry) {
    seen.insert(entry.name);
    PENSTOCK_EXPECT_OK(fs().remove(path(entry.name)));
    return true;
  }));
  EXPECT_EQ(seen, made);
  EXPECT_THAT(listing(fs(), directory()), IsEmpty());
}

TEST_P(FileSystemConformance, DirectoriesAndFileSystemsSync) {
  make("f", "abc");
  PENSTOCK_EXPECT_OK(fs().sync_directory(directory()));
  PENSTOCK_EXPECT_OK(fs().sync_file_system(directory()));
  PENSTOCK_EXPECT_OK(fs().sync_file_system(path("f")));
  PENSTOCK_EXPECT_ERROR(fs().sync_directory(path("no")), kNotFound);
  PENSTOCK_EXPECT_ERROR(fs().sync_file_system(path("no")), kNotFound);
}

TEST_P(FileSystemConformance, SpaceAddsUp) {
  const Result<SpaceInfo> space = fs().space(directory());
  ASSERT_TRUE(space.ok()) << space.error().to_string();
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_GE(space->total_bytes, space->free_bytes);
  EXPECT_GE(space->free_bytes, space->available_bytes);
  EXPECT_GE(space->total_inodes, space->free_inodes);
  EXPECT_TRUE(std::has_single_bit(space->block_bytes));
  PENSTOCK_EXPECT_ERROR(fs().space(path("no")), kNotFound);
}

TEST_P(FileSystemConformance, ALockIsHeldByOne) {
  auto lock = fs().try_lock(path("lock"));
  ASSERT_TRUE(lock.ok()) << lock.error().to_string();
  EXPECT_EQ(fs().stat(path("lock"))->kind, FileKind::kFile);
  PENSTOCK_EXPECT_ERROR(fs().try_lock(path("lock")), kBusy);
  std::thread other([this] { PENSTOCK_EXPECT_ERROR(fs().try_lock(path("lock")), kBusy); });
  other.join();
  PENSTOCK_EXPECT_OK(fs().try_lock(path("another")));
  lock->reset();
  PENSTOCK_EXPECT_OK(fs().try_lock(path("lock")));
  PENSTOCK_EXPECT_OK(fs().try_lock(path("lock")));
  PENSTOCK_EXPECT_ERROR(fs().try_lock(path("no/lock")), kNotFound);
}

TEST_P(FileSystemConformance, BootIdStaysWhileTheMachineRuns) {
  EXPECT_FALSE(fs().boot_id().empty());
  EXPECT_EQ(fs().boot_id(), fs().boot_id());
  EXPECT_FALSE(fs().description().empty());
}

TEST_P(FileSystemConformance, MakeDirectoriesMakesTheMissingOnes) {
  PENSTOCK_EXPECT_OK(make_directories(fs(), path("a/b/c")));
  PENSTOCK_EXPECT_OK(make_directories(fs(), path("a/b/c/")));
  EXPECT_EQ(fs().stat(path("a/b/c"))->kind, FileKind::kDirectory);
  make("a/f");
  PENSTOCK_EXPECT_ERROR(make_directories(fs(), path("a/f")), kExists);
  PENSTOCK_EXPECT_ERROR(make_directories(fs(), path("a/f/g")), kExists);
}

TEST_P(FileSystemConformance, RemoveTreeTakesAllAndFollowsNoLink) {
  PENSTOCK_EXPECT_OK(make_directories(fs(), path("tree/sub/empty")));
  PENSTOCK_EXPECT_OK(fs().make_directory(path("kept")));
  make("kept/f", "abc");
  make("tree/sub/f");
  PENSTOCK_EXPECT_OK(fs().make_symlink("../kept", path("tree/link")));
  PENSTOCK_EXPECT_OK(remove_tree(fs(), path("tree")));
  PENSTOCK_EXPECT_OK(remove_tree(fs(), path("tree")));
  EXPECT_THAT(listing(fs(), directory()), ElementsAre(Pair("kept", FileKind::kDirectory)));
  EXPECT_EQ(contents("kept/f"), "abc");
}

TEST_P(FileSystemConformance, ReadFileKeepsToItsLimit) {
  make("f", std::string(10000, 'a'));
  EXPECT_EQ(*read_file(fs(), path("f"), 10000), std::string(10000, 'a'));
  PENSTOCK_EXPECT_ERROR(read_file(fs(), path("f"), 9999), kNoMemory);
  PENSTOCK_EXPECT_ERROR(read_file(fs(), path("no"), 100), kNotFound);
  make("empty");
  EXPECT_EQ(*read_file(fs(), path("empty"), 0), "");
}

TEST_P(FileSystemConformance, WriteFileDurablyReplaces) {
  PENSTOCK_EXPECT_OK(write_file_durably(fs(), path("f"), "first"));
  PENSTOCK_EXPECT_OK(write_file_durably(fs(), path("f"), "second, longer"));
  PENSTOCK_EXPECT_OK(write_file_durably(fs(), path("f"), "3rd"));
  EXPECT_EQ(contents("f"), "3rd");
  EXPECT_THAT(listing(fs(), directory()), ElementsAre(Pair("f", FileKind::kFile)));
  PENSTOCK_EXPECT_ERROR(write_file_durably(fs(), path("no/f"), "x"), kNotFound);
}

TEST(ParentPath, IsWhatHoldsTheName) {
  EXPECT_EQ(parent_path("/a/b/c"), "/a/b");
  EXPECT_EQ(parent_path("c"), ".");
  EXPECT_EQ(parent_path("/c"), "/");
  EXPECT_EQ(parent_path("/a//b/"), "/a");
  EXPECT_EQ(parent_path("/"), "/");
}

}  // namespace
}  // namespace penstock::io
