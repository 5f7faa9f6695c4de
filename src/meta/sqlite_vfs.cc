#include "meta/sqlite_vfs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "penstock/frame.h"

namespace penstock::meta {

namespace {

constexpr size_t kHashedBytes = kPageBytes - kPageReservedBytes;

using Page = std::span<std::byte, kPageBytes>;

uint64_t page_checksum(std::span<const std::byte, kPageBytes> page, uint64_t offset) {
  return codec::hash_bytes(page.first<kHashedBytes>(), offset);
}

// SQLite gives the memory, of szOsFile bytes, and knows only its first member.
struct VfsFile {
  sqlite3_file base;
  SqliteVfs* vfs;
  io::File* file;    // Owned.
  bool name_is_new;  // And not yet durable.
  bool with_sums;    // The database itself.
};

VfsFile& of(sqlite3_file* file) {
  return *reinterpret_cast<VfsFile*>(file);
}
SqliteVfs& of(sqlite3_vfs* vfs) {
  return *static_cast<SqliteVfs*>(vfs->pAppData);
}

bool is_page(const VfsFile& file, int amount, sqlite3_int64 offset) {
  return file.with_sums && amount == kPageBytes && offset % kPageBytes == 0;
}

// Pages that were never written are zeros, without a sum; as content SQLite refuses them.
bool page_is_whole(std::span<const std::byte, kPageBytes> page, uint64_t offset) {
  uint64_t stored = 0;
  std::memcpy(&stored, page.data() + kHashedBytes, sizeof stored);
  if (stored == page_checksum(page, offset)) return true;
  return std::ranges::all_of(page, [](std::byte byte) { return byte == std::byte{0}; });
}

int close_file(sqlite3_file* file) {
  delete of(file).file;
  of(file).file = nullptr;
  return SQLITE_OK;
}

int read_file(sqlite3_file* file, void* into, int amount, sqlite3_int64 offset) {
  VfsFile& self = of(file);
  const std::span<std::byte> bytes(static_cast<std::byte*>(into), static_cast<size_t>(amount));
  Result<size_t> got = self.file->read(static_cast<uint64_t>(offset), bytes);
  if (!got.ok()) return self.vfs->fail(std::move(got).error(), SQLITE_IOERR_READ);
  if (*got < bytes.size()) {
    std::memset(bytes.data() + *got, 0, bytes.size() - *got);
    return SQLITE_IOERR_SHORT_READ;
  }
  if (is_page(self, amount, offset) && !page_is_whole(Page(bytes), static_cast<uint64_t>(offset))) {
    return self.vfs->fail(
        make_error(ErrorCode::kCorrupt,
                   fmt::format("{}: the page at {} is damaged (its checksum is wrong)",
                               self.vfs->path(), offset)),
        SQLITE_IOERR_DATA);
  }
  return SQLITE_OK;
}

int write_file(sqlite3_file* file, const void* from, int amount, sqlite3_int64 offset) {
  VfsFile& self = of(file);
  std::span<const std::byte> bytes(static_cast<const std::byte*>(from),
                                   static_cast<size_t>(amount));
  std::array<std::byte, kPageBytes> page;
  if (is_page(self, amount, offset)) {
    std::ranges::copy(bytes, page.begin());
    const uint64_t sum = page_checksum(page, static_cast<uint64_t>(offset));
    std::memcpy(page.data() + kHashedBytes, &sum, sizeof sum);
    bytes = page;
  }
  Result<void> written = self.file->write(static_cast<uint64_t>(offset), bytes);
  if (written.ok()) return SQLITE_OK;
  const bool full = written.error().code == ErrorCode::kNoSpace;
  return self.vfs->fail(std::move(written).error(), full ? SQLITE_FULL : SQLITE_IOERR_WRITE);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  Result<void> cut = of(file).file->truncate(static_cast<uint64_t>(size));
  if (cut.ok()) return SQLITE_OK;
  return of(file).vfs->fail(std::move(cut).error(), SQLITE_IOERR_TRUNCATE);
}

int sync_file(sqlite3_file* file, int) {
  VfsFile& self = of(file);
  Result<void> synced = self.file->data_sync();
  if (!synced.ok()) return self.vfs->fail(std::move(synced).error(), SQLITE_IOERR_FSYNC);
  if (!self.name_is_new) return SQLITE_OK;
  synced = self.vfs->fs().sync_directory(io::parent_path(self.vfs->path()));
  if (!synced.ok()) return self.vfs->fail(std::move(synced).error(), SQLITE_IOERR_DIR_FSYNC);
  self.name_is_new = false;
  return SQLITE_OK;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  Result<io::FileInfo> info = of(file).file->stat();
  if (!info.ok()) return of(file).vfs->fail(std::move(info).error(), SQLITE_IOERR_FSTAT);
  *size = static_cast<sqlite3_int64>(info->size);
  return SQLITE_OK;
}

int lock_file(sqlite3_file*, int) {
  return SQLITE_OK;
}
int check_lock(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int file_control(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int sector_bytes(sqlite3_file*) {
  return kPageBytes;
}
// A write changes no byte but its own, whatever becomes of the power.
int characteristics(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

// Version 1: without shared memory and mappings.
const sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 1;
  methods.xClose = close_file;
  methods.xRead = read_file;
  methods.xWrite = write_file;
  methods.xTruncate = truncate_file;
  methods.xSync = sync_file;
  methods.xFileSize = file_size;
  methods.xLock = lock_file;
  methods.xUnlock = lock_file;
  methods.xCheckReservedLock = check_lock;
  methods.xFileControl = file_control;
  methods.xSectorSize = sector_bytes;
  methods.xDeviceCharacteristics = characteristics;
  return methods;
}();

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // So that it is not closed where it was not opened.
  SqliteVfs& self = of(vfs);
  // Temporary ones are kept in memory, and never come here.
  if (name == nullptr) return SQLITE_CANTOPEN;
  const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
  Result<std::unique_ptr<io::File>> opened = self.fs().open(
      self.path_of(name), {.access = io::Access::kReadWrite,
                           .create = create ? io::Create::kIfMissing : io::Create::kNever,
                           .permissions = 0600});
  if (!opened.ok()) {
    const bool full = opened.error().code == ErrorCode::kNoSpace;
    return self.fail(std::move(opened).error(), full ? SQLITE_FULL : SQLITE_CANTOPEN);
  }
  VfsFile& made = of(file);
  made.vfs = &self;
  made.file = opened->release();
  // One that is there may be from a run that died before it was made durable.
  made.name_is_new = true;
  made.with_sums = (flags & SQLITE_OPEN_MAIN_DB) != 0;
  made.base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs* vfs, const char* name, int sync_directory) {
  SqliteVfs& self = of(vfs);
  Result<void> removed = self.fs().remove(self.path_of(name));
  if (!removed.ok()) {
    if (removed.error().code == ErrorCode::kNotFound) return SQLITE_IOERR_DELETE_NOENT;
    return self.fail(std::move(removed).error(), SQLITE_IOERR_DELETE);
  }
  if (sync_directory == 0) return SQLITE_OK;
  Result<void> synced = self.fs().sync_directory(io::parent_path(self.path()));
  if (synced.ok()) return SQLITE_OK;
  return self.fail(std::move(synced).error(), SQLITE_IOERR_DIR_FSYNC);
}

int access_file(sqlite3_vfs* vfs, const char* name, int, int* there) {
  SqliteVfs& self = of(vfs);
  Result<io::FileInfo> info = self.fs().stat(self.path_of(name));
  *there = info.ok() ? 1 : 0;
  if (info.ok() || info.error().code == ErrorCode::kNotFound) return SQLITE_OK;
  // Not to be taken for absent: a log that is not looked at is a commit that is lost.
  return self.fail(std::move(info).error(), SQLITE_IOERR_ACCESS);
}

int full_path(sqlite3_vfs*, const char* name, int room, char* into) {
  sqlite3_snprintf(room, into, "%s", name);
  return SQLITE_OK;
}

int last_error(sqlite3_vfs*, int, char*) {
  return 0;
}

std::string next_name() {
  static std::atomic<uint64_t> counter{0};
  return fmt::format("penstock-{}", counter++);
}

}  // namespace

SqliteVfs::SqliteVfs(io::FileSystem& fs, std::string path)
    : fs_(fs), path_(std::move(path)), name_(next_name()) {
  // The clock, sleep and randomness are the system's.
  vfs_ = *sqlite3_vfs_find(nullptr);
  vfs_.iVersion = std::min(vfs_.iVersion, 2);
  vfs_.szOsFile = sizeof(VfsFile);
  vfs_.pNext = nullptr;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = open_file;
  vfs_.xDelete = delete_file;
  vfs_.xAccess = access_file;
  vfs_.xFullPathname = full_path;
  vfs_.xGetLastError = last_error;
  sqlite3_vfs_register(&vfs_, 0);
}

SqliteVfs::~SqliteVfs() {
  sqlite3_vfs_unregister(&vfs_);
}

std::optional<Error> SqliteVfs::take_error() {
  return std::exchange(error_, std::nullopt);
}

int SqliteVfs::fail(Error error, int code) {
  error_ = std::move(error);
  return code;
}

std::string SqliteVfs::path_of(const char* name) const {
  const std::string_view given(name);
  return path_ + std::string(given.substr(std::string_view(kDatabaseName).size()));
}

}  // namespace penstock::meta
