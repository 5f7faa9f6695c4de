// Whether two objects of one name differ, as far as can be told without reading them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::sync {

struct Side {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  std::string etag = {};  // Empty where it is not known.
};

struct CompareRules {
  bool from_tree = false;
  bool to_tree = false;
  bool checksum = false;
  int64_t time_step_ns = 1;  // Of the target tree.
};

enum class Verdict : uint8_t {
  kSame,
  kDiffers,
  // The time that a sync recorded with the object decides (see decide_by_kept_time).
  kAskKeptTime,
  kReadBytes,
};

struct Decision {
  Verdict verdict = Verdict::kSame;
  std::string_view why = {};  // "size", "time": for people.
};

Decision compare(const Side& source, const Side& target, const CompareRules& rules);

// After kAskKeptTime. `kept_mtime_ns` is of the one that is no file: the target of from_tree, the
// source of to_tree.
Decision decide_by_kept_time(const Side& source, const Side& target, const CompareRules& rules,
                             std::optional<int64_t> kept_mtime_ns);

// Whether the etags prove that both have the same bytes: those of S3 are made of checksums.
bool same_etag(const std::string& a, const std::string& b);
// The MD5 in an etag of S3, as lower-case hex; empty when it is none.
std::string_view md5_in_etag(std::string_view etag);

}  // namespace penstock::sync
