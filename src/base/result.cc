#include "penstock/result.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace penstock {

namespace {

struct ErrnoRule {
  int os_errno;
  ErrorCode code;
  bool retryable;
};

// Everything not listed is kIo, not retryable: an errno we did not foresee is not one to loop on.
constexpr ErrnoRule kErrnoRules[] = {
    {ENOENT, ErrorCode::kNotFound, false},
    {ENOTDIR, ErrorCode::kNotFound, false},
    {EEXIST, ErrorCode::kExists, false},
    {ENOTEMPTY, ErrorCode::kExists, false},
    {EACCES, ErrorCode::kPermission, false},
    {EPERM, ErrorCode::kPermission, false},
    {EROFS, ErrorCode::kPermission, false},
    {ENOSPC, ErrorCode::kNoSpace, false},
    {EDQUOT, ErrorCode::kNoSpace, false},
    {EFBIG, ErrorCode::kNoSpace, false},
    {ENOMEM, ErrorCode::kNoMemory, true},
    {EMFILE, ErrorCode::kBusy, true},
    {ENFILE, ErrorCode::kBusy, true},
    {EAGAIN, ErrorCode::kBusy, true},
    {EBUSY, ErrorCode::kBusy, true},
    {EINTR, ErrorCode::kBusy, true},
    {ETXTBSY, ErrorCode::kBusy, true},
    {EINVAL, ErrorCode::kInvalid, false},
    {EISDIR, ErrorCode::kInvalid, false},
    {ENAMETOOLONG, ErrorCode::kInvalid, false},
    {ELOOP, ErrorCode::kInvalid, false},
    {EBADF, ErrorCode::kInvalid, false},
    {EOPNOTSUPP, ErrorCode::kUnsupported, false},
    {ENOSYS, ErrorCode::kUnsupported, false},
    {EXDEV, ErrorCode::kUnsupported, false},
    {ETIMEDOUT, ErrorCode::kTimeout, true},
    {ECANCELED, ErrorCode::kCancelled, false},
    {ECONNREFUSED, ErrorCode::kUnavailable, true},
    {ECONNRESET, ErrorCode::kUnavailable, true},
    {EHOSTUNREACH, ErrorCode::kUnavailable, true},
    {ESTALE, ErrorCode::kIo, true},
};

}  // namespace

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kExists:
      return "exists";
    case ErrorCode::kChanged:
      return "changed";
    case ErrorCode::kPermission:
      return "permission";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kNoMemory:
      return "no_memory";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kClosed:
      return "closed";
  }
  return "unknown";
}

std::string Error::to_string() const {
  return fmt::format("{}: {}", error_code_name(code), detail);
}

Error Error::with_context(std::string_view context) const {
  Error wrapped = *this;
  wrapped.detail = fmt::format("{}: {}", context, detail);
  return wrapped;
}

Error Error::as_outcome() const {
  Error outcome = *this;
  if (code == ErrorCode::kTimeout) outcome.code = ErrorCode::kUnavailable;
  return outcome;
}

Error errno_error(int os_errno, std::string_view action) {
  Error error{ErrorCode::kIo, false, os_errno, {}};
  for (const ErrnoRule& rule : kErrnoRules) {
    if (rule.os_errno != os_errno) continue;
    error.code = rule.code;
    error.retryable = rule.retryable;
  }
  std::array<char, 128> text{};
  error.detail = fmt::format("{}: {}", action, strerror_r(os_errno, text.data(), text.size()));
  return error;
}

Error make_error(ErrorCode code, std::string detail, bool retryable) {
  return Error{code, retryable, 0, std::move(detail)};
}

}  // namespace penstock
