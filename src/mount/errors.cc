#include "mount/errors.h"

#include <atomic>
#include <cerrno>
#include <chrono>

#include "base/log.h"

namespace penstock::mount {

namespace {

using Clock = std::chrono::steady_clock;

// A program that reads on over a lost object would fill the drive with its complaints.
constexpr uint64_t kLinesPerSecond = 5;

bool may_log() {
  static std::atomic<int64_t> second{0};
  static std::atomic<uint64_t> lines{0};
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  if (second.exchange(now) != now) lines.store(0);
  return lines.fetch_add(1) < kLinesPerSecond;
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
  if (number == EIO && may_log()) {
    log_error("a request failed: the program gets EIO",
              {{"operation", operation}, {"inode", ino}, {"error", error.to_string()}});
  }
  return number;
}

}  // namespace penstock::mount
