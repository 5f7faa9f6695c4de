// How every fallible call in Penstock answers: a value, or an Error that says what the caller may
// do about it.
//
//   Result<uint64_t> size = parse_size(text);
//   if (!size) return size.error();
//   use(*size);
//
// or, inside a function that itself returns a Result:
//
//   uint64_t size = PENSTOCK_TRY(parse_size(text));
//
// Errors are values for what can happen; assertions are for what cannot. No exception crosses a
// callback, a thread or the boundary of the library.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace penstock {

// What kind of failure. Callers switch on this; `detail` is only for people.
enum class ErrorCode : uint8_t {
  kInvalid,      // The request itself is wrong; the same call can never succeed.
  kNotFound,     // No such file, object, bucket.
  kExists,       // It is there already, and the caller asked that it not be.
  kChanged,      // It is there, but is not the version the caller named (if-match).
  kPermission,   // Refused by the operating system or the server.
  kNoSpace,      // Disk, quota or inode table full.
  kNoMemory,     // Would exceed the memory budget or what the system gives.
  kIo,           // The device or the network failed in the middle.
  kCorrupt,      // Bytes arrived, and are not the right ones.
  kTimeout,      // The deadline passed first.
  kCancelled,    // The caller asked to stop.
  kBusy,         // Full or held by somebody else right now.
  kUnavailable,  // The service does not answer, or asks us to slow down.
  kUnsupported,  // This system, file system or store cannot do it.
  kClosed,       // The thing asked is shutting down or shut.
};

// A stable lower-case name, for logs, metrics and JSON: "not_found".
std::string_view error_code_name(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInvalid;
  bool retryable =
      false;  // The same request may succeed later (where its deadline passed, with a new one).
  int os_errno = 0;  // Kept, never only formatted. 0 where the operating system did not speak.
  std::string
      detail;  // For people: what happened, to which path or object, what to do. Never a secret.

  // "not_found: open /data/x: No such file or directory"
  std::string to_string() const;

  // The same error with `context: ` put before its detail.
  Error with_context(std::string_view context) const;
  // The same error as the outcome of something that others wait for with deadlines of their own. To
  // them kTimeout means "not yet, ask again", so a "never" must not be called so: it becomes
  // kUnavailable.
  Error as_outcome() const;
};

// The error for a failed system call: code and retryability follow from `os_errno`, the detail is
// "ACTION: strerror". `action` names the call and what it was about ("open /data/x").
Error errno_error(int os_errno, std::string_view action);

// An error that no errno stands behind; retryable only where asked for.
Error make_error(ErrorCode code, std::string detail, bool retryable = false);

// A T or an Error.
// Threads: as safe as T. Reading the side that is not there is a bug (asserted).
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) const& { return ok() ? value() : std::move(other); }

  const Error& error() const& { return assert(!ok()), *std::get_if<1>(&state_); }
  Error&& error() && { return assert(!ok()), std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit on purpose

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  void value() const { assert(ok_); }
  const Error& error() const& { return assert(!ok_), error_; }
  Error&& error() && { return assert(!ok_), std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace penstock

// The value of `expression`, or a return of its error from the enclosing function. Works for
// Result<void> too. A GNU statement expression: both compilers we support have it, and nothing in
// the standard reads as well.
#define PENSTOCK_TRY(expression)                                                  \
  __extension__({                                                                 \
    auto penstock_try_result = (expression);                                      \
    if (!penstock_try_result.ok()) return std::move(penstock_try_result).error(); \
    std::move(penstock_try_result).value();                                       \
  })
