// S3 and what speaks it (Ceph, MinIO, GCS and others through their interoperability endpoints).
//
// What an S3 store adds to the contract of store.h:
//
// Times: mtime is the server's. It comes in whole seconds from get and head; from put and an upload
// it is when the server answered, which may differ by a second.
// What put keeps is in the metadata "mtime" (seconds since the epoch, with decimals) and "mode"
// (octal), as rclone writes them; what others wrote there and makes no sense is not there. A copy of
// an object too large for one request keeps no other metadata.
// put with if_absent is atomic (If-None-Match). After a lost answer it is found out whether the
// object that is there is the one we put, so kExists always means somebody else's. An upload of
// more than one part is atomic in this way only where the server honours the condition when an
// upload is completed (AWS does; Ceph does not: there the check comes just before).
// Uploads have at most 10,000 parts: those that say how large they will be get larger parts, fewer at
// once. One that is cut off by a crash of this process leaves its
// parts on the server: give buckets a lifecycle rule that removes incomplete uploads.
// Keys: the limit of 1024 bytes is for the prefix and the key together.
// Listings leave keys that no store can name ("a//b", "dir/") to ListPage::odd.
// Clocks: when the server says that ours is wrong its time is taken for signing, with a warning.
// Regions: when AWS says that the bucket is elsewhere the store moves there, with a warning.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/result.h"
#include "penstock/store.h"
#include "penstock/units.h"

namespace penstock::store {

enum class AddressStyle : uint8_t {
  kAuto,  // Virtual-host on AWS, path everywhere else and for bucket names with dots over TLS.
  kPath,  // https://host/bucket/key
  kVirtualHost,  // https://bucket.host/key
};

struct S3Options {
  // Who. Empty access_key: requests are not signed (public buckets).
  std::string access_key;
  std::string secret_key;     // Never logged, printed or put into an error.
  std::string session_token;  // Neither.

  // Where. Empty endpoint: AWS, from the region.
  std::string endpoint;
  std::string region = "us-east-1";
  AddressStyle style = AddressStyle::kAuto;
  bool verify_tls = true;
  std::string ca_file;  // PEM bundle; empty: the system's.

  // How hard.
  uint32_t connections = 64;  // At once, to this endpoint. 1 to 1024.
  uint32_t attempts = 8;      // Per request, the first included. 1 to 100.
  // Doubles per attempt, with full jitter, up to backoff_max. SlowDown holds back every request.
  Nanoseconds backoff_min = std::chrono::milliseconds(50);
  Nanoseconds backoff_max = std::chrono::seconds(10);
  Nanoseconds connect_timeout = std::chrono::seconds(10);
  // No byte either way for so long: try again.
  Nanoseconds stall_timeout = std::chrono::seconds(30);
  // A read still waiting for its first byte so long after it was sent is sent a second time, into
  // memory of its own; the first whole answer wins. 0: never.
  Nanoseconds hedge_after = Nanoseconds(0);
  uint64_t part_bytes = 16 * kMiB;  // Of uploads. 5 MiB to 5 GiB.
  uint32_t parts_in_flight = 4;     // Per upload: memory is part_bytes times this. 1 to 1024.
  bool verify_content = false;      // Check whole-object reads against the MD5 in the etag,
                                    // where it is one: costs a core per 0.6 GB/s. Lengths,
                                    // ranges and declared checksums are always checked.
};

// $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY, $AWS_SESSION_TOKEN, $AWS_ENDPOINT_URL(_S3),
// $AWS_REGION, $AWS_DEFAULT_REGION, $AWS_CA_BUNDLE; otherwise the profile ($AWS_PROFILE or
// "default") in ~/.aws/credentials and ~/.aws/config
// ($AWS_SHARED_CREDENTIALS_FILE, $AWS_CONFIG_FILE). kInvalid names the file and line of what cannot
// be read as settings.
Result<S3Options> s3_options_from_environment();

// Refused before any request: kInvalid names the option.
Result<void> validate(const S3Options& options);

// Does not talk to the server: a wrong key or bucket shows at the first call.
Result<std::unique_ptr<ObjectStore>> open_s3_store(const std::string& bucket,
                                                   const std::string& prefix,
                                                   const S3Options& options);

// A URL by which anyone may GET the object for `valid` (1 s to 7 d), with no credentials. kInvalid
// without keys to sign it with.
Result<std::string> presign_get(const std::string& bucket, const std::string& key,
                                const S3Options& options, Nanoseconds valid);

// What S3 requests cost so far, over all stores of the process: also in the metrics as
// penstock_s3_*.
struct S3Stats {
  uint64_t requests = 0;
  uint64_t retries = 0;
  uint64_t slow_downs = 0;
  uint64_t hedges = 0;
  uint64_t hedges_won = 0;
};
S3Stats s3_stats();

}  // namespace penstock::store
