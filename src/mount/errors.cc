#include "mount/errors.h"

#include <cerrno>

#include "base/line_limit.h"
#include "base/log.h"

namespace penstock::mount {

namespace {

// A program that reads on over a lost object, or in spite of a store that is away, would fill the
// drive with its complaints.
constexpr uint32_t kLinesAtOnce = 10;
constexpr Nanoseconds kLineEvery = std::chrono::seconds(10);

LineLimit& lines() {
  static LineLimit limit(kLinesAtOnce, kLineEvery);
  return limit;
}

}  // namespace

int errno_of(const Error& error) {
  // What the network said means nothing to somebody who reads a file.
  const bool far = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout;
  if (error.os_errno != 0 && !far) return error.os_errno;
  switch (error.code) {
    case ErrorCode::kInvalid:
      return EINVAL;
    case ErrorCode::kNotFound:
      return ENOENT;
    case ErrorCode::kExists:
      return EEXIST;
    case ErrorCode::kPermission:
      return EACCES;
    case ErrorCode::kNoSpace:
      return ENOSPC;
    case ErrorCode::kNoMemory:
      return ENOMEM;
    case ErrorCode::kCancelled:
      return EINTR;
    case ErrorCode::kBusy:
      return EBUSY;
    case ErrorCode::kUnsupported:
      return EOPNOTSUPP;
    case ErrorCode::kChanged:
    case ErrorCode::kIo:
    case ErrorCode::kCorrupt:
    case ErrorCode::kTimeout:
    case ErrorCode::kUnavailable:
    case ErrorCode::kClosed:
      return EIO;
  }
  return EIO;
}

int report(const Error& error, std::string_view operation, meta::Ino ino) {
  const int number = errno_of(error);
  if (number != EIO) return number;
  if (const std::optional<uint64_t> others = lines().take()) {
    log_error("a request failed: the program gets EIO", {{"operation", operation},
                                                         {"inode", ino},
                                                         {"error", error.to_string()},
                                                         {"others", *others}});
  }
  return number;
}

}  // namespace penstock::mount
