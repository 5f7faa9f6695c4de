// Single S3 operations that several parts of the store are made of.
// Keys are those in the bucket, also in the ObjectInfo that comes back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "penstock/store.h"
#include "store/s3_client.h"

namespace penstock::store {

// What one PUT can carry, and one CopyObject.
inline constexpr uint64_t kS3PutBytesMax = 5 * kGiB;

// All that the headers of an answer to GET or HEAD tell.
Result<ObjectInfo> object_info(const std::string& key, const HttpResponse& response);
// The server's time when it answered: for writes, whose answers tell no modification time.
int64_t answer_time_ns(const HttpResponse& response);

struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t size = 0;
};
// "bytes 0-9/100"; kCorrupt, retryable, for anything else.
Result<ContentRange> parse_content_range(std::string_view text);

// HEAD. `headers` gets those of the answer, too.
void head_object(S3Client& client, const std::string& key, const CallOptions& options,
                 std::function<void(Result<ObjectInfo>, const HttpResponse& headers)> done);

// One PUT. With if_absent: kExists when the key is there. After an answer got lost, the object that
// is there may be the one we put; each such PUT therefore carries a number of its own in the
// object's metadata, by which a HEAD can tell.
void put_object(S3Client& client, const std::string& key, std::span<const std::byte> bytes,
                const PutOptions& options, Done<ObjectInfo> done);

// The steps of a multipart upload.
struct S3UploadId {
  std::string key;
  std::string id;
};
// What is to be kept with the object is said here, not when it is complete.
void begin_upload(S3Client& client, const std::string& key, const PutOptions& options,
                  Done<S3UploadId> done);
// With if_absent the condition is sent along, and looked at before, for servers that ignore it.
void complete_upload(S3Client& client, const S3UploadId& upload, std::vector<std::string> etags,
                     uint64_t size, const PutOptions& options, Done<ObjectInfo> done);
// Success also when it is gone already.
void abort_upload(S3Client& client, const S3UploadId& upload, const CallOptions& options,
                  Done<void> done);

}  // namespace penstock::store
