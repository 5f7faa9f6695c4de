// The XML that S3 speaks. The readers take any bytes; kCorrupt when they are not what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/store.h"

namespace penstock::store {

// ListObjectsV2 with encoding-type=url.
struct S3Listing {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> folders;
  bool truncated = false;
  std::string continuation;
};
Result<S3Listing> parse_listing(std::string_view xml);

struct S3ErrorText {
  std::string code;     // "NoSuchKey"
  std::string message;  // The server's own words.
  std::string region;   // Where the bucket is, when that was the mistake.
};
// Nothing when `xml` is not an <Error>.
std::optional<S3ErrorText> parse_error(std::string_view xml);

struct S3DeleteError {
  std::string key;
  S3ErrorText error;
};
// Those that DeleteObjects could not remove.
Result<std::vector<S3DeleteError>> parse_delete_result(std::string_view xml);

Result<std::string> parse_upload_id(std::string_view xml);

// Of CopyObject, UploadPartCopy and CompleteMultipartUpload. Empty etag where the server gives
// none.
struct S3Written {
  std::string etag;
  int64_t mtime_ns = 0;
};
Result<S3Written> parse_written(std::string_view xml);

// Whether XML 1.0 can carry the key at all: control characters and broken UTF-8 it cannot.
bool is_xml_text(std::string_view text);

// Requires is_xml_text() of all keys.
std::string make_delete_request(std::span<const std::string> keys);
// Of the parts 1, 2, ... by their etags.
std::string make_complete_request(std::span<const std::string> etags);

// "a%20b+c" -> "a b c": in listings '+' stands for a space.
std::string decode_listed_key(std::string_view text);
std::string without_quotes(std::string_view etag);
// "2024-01-31T12:00:00.123Z"; 0 when it is not such a time.
int64_t parse_iso_time_ns(std::string_view text);

}  // namespace penstock::store
