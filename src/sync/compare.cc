#include "sync/compare.h"

#include <algorithm>
#include <cstdlib>

namespace penstock::sync {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// A file that was changed so shortly before the object was written may have been changed after it
// was read.
constexpr int64_t kRecent = 60 * kSecond;
constexpr size_t kMd5Digits = 32;

int64_t floor_to(int64_t time_ns, int64_t step_ns) {
  int64_t rest = time_ns % step_ns;
  if (rest < 0) rest += step_ns;
  return time_ns - rest;
}

bool same_time(int64_t a, int64_t b, int64_t step_ns) {
  return floor_to(a, step_ns) == floor_to(b, step_ns);
}

// S3 tells times in whole seconds when an object is read, and more exactly in some listings.
bool has_time_of_object(int64_t file, int64_t object, int64_t step_ns) {
  return same_time(file, object, step_ns) || same_time(file, floor_to(object, kSecond), step_ns);
}

Decision when(bool same) {
  return same ? Decision{Verdict::kSame} : Decision{Verdict::kDiffers, "time"};
}

}  // namespace

bool same_etag(const std::string& a, const std::string& b) {
  return a.size() >= kMd5Digits && a == b;
}

std::string_view md5_in_etag(std::string_view etag) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const bool is_md5 = etag.size() == kMd5Digits && std::all_of(etag.begin(), etag.end(), is_digit);
  return is_md5 ? etag : std::string_view();
}

Decision compare(const Side& source, const Side& target, const CompareRules& rules) {
  if (source.size != target.size) return {Verdict::kDiffers, "size"};
  const bool both_stores = !rules.from_tree && !rules.to_tree;
  if (both_stores && same_etag(source.etag, target.etag)) return {Verdict::kSame};
  if (rules.checksum) return {Verdict::kReadBytes};
  if (both_stores) return when(source.mtime_ns <= target.mtime_ns);
  if (rules.from_tree && rules.to_tree) {
    return when(same_time(source.mtime_ns, target.mtime_ns, rules.time_step_ns));
  }
  if (rules.to_tree) {
    if (has_time_of_object(target.mtime_ns, source.mtime_ns, rules.time_step_ns)) {
      return {Verdict::kSame};
    }
    return {Verdict::kAskKeptTime};
  }
  const bool long_ago = source.mtime_ns < target.mtime_ns - kRecent;
  return {long_ago ? Verdict::kSame : Verdict::kAskKeptTime};
}

Decision decide_by_kept_time(const Side& source, const Side& target, const CompareRules& rules,
                             std::optional<int64_t> kept_mtime_ns) {
  if (rules.to_tree) {
    return when(kept_mtime_ns && same_time(*kept_mtime_ns, target.mtime_ns, rules.time_step_ns));
  }
  if (kept_mtime_ns) return when(*kept_mtime_ns == source.mtime_ns);
  return when(source.mtime_ns <= target.mtime_ns);
}

}  // namespace penstock::sync
