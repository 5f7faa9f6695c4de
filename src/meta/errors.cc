#include "meta/errors.h"

#include <fmt/core.h>

#include <cerrno>

namespace penstock::meta {

Error posix_error(int os_errno, std::string_view subject) {
  Error error = errno_error(os_errno, subject);
  switch (os_errno) {
    case ENODATA:
      error.code = ErrorCode::kNotFound;
      break;
    case EMLINK:
      error.code = ErrorCode::kNoSpace;
      break;
    case E2BIG:
    case ERANGE:
      error.code = ErrorCode::kInvalid;
      break;
    default:
      break;
  }
  return error;
}

Error no_inode(uint64_t ino) {
  return posix_error(ENOENT, fmt::format("inode {}", ino));
}

Error no_version(uint64_t version) {
  return make_error(ErrorCode::kNotFound,
                    fmt::format("version {} is not kept, or not there yet", version));
}

}  // namespace penstock::meta
