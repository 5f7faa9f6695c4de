#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/result.h"
#include "store/http_client.h"
#include "store/s3_xml.h"

namespace penstock::store {

// What an error text may say about the store; nothing here is a secret.
struct S3Place {
  std::string bucket;
  std::string endpoint;  // The host.
  std::string region;
  bool is_signed = true;
};

struct S3Failure {
  Error error;
  std::string code;  // The server's, e.g. "NoSuchBucket"; empty where it sent none.
  bool slow_down = false;
  std::string other_region;  // Where the server says the bucket is.
  bool clock_skewed = false;
};

// An answer that is not what was asked for, as an error that says what to do.
S3Failure s3_failure(const HttpResponse& response, const S3Place& place);
// The same for an error inside an answer (DeleteObjects, CopyObject, CompleteMultipartUpload).
S3Failure s3_failure(const S3ErrorText& text, int status, const S3Place& place);

// How far the server's clock is ahead of `local_seconds`; nothing when it sent no date.
std::optional<int64_t> server_clock_lead_s(const HttpResponse& response, int64_t local_seconds);
// "12 minutes behind the server's": what is wrong with this machine's clock.
std::string describe_clock(int64_t server_lead_s);

}  // namespace penstock::store
