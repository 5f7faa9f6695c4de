#pragma once

#include <string>
#include <string_view>

#include "penstock/result.h"
#include "penstock/s3.h"

namespace penstock::store {

// Where the requests for one bucket go.
struct S3Target {
  bool tls = true;
  std::string host;       // As in the Host header: with the port unless it is the scheme's own.
  std::string base_path;  // What goes before the key, encoded: "", "/bucket", "/gateway/bucket".
  std::string region;
  // "s3://HOST[:PORT]/bucket/", the same in either style. Without TLS always with a port: another
  // server may listen on the one that is TLS's own.
  std::string identity;

  std::string encoded_path(std::string_view key) const;
  std::string url(std::string_view encoded_path, std::string_view query) const;
};

// kInvalid says what is wrong with the endpoint or the bucket's name.
Result<S3Target> make_s3_target(const S3Options& options, const std::string& bucket);

}  // namespace penstock::store
