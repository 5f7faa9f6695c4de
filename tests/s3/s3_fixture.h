// What the tests against a real S3 server share: the server named by $PENSTOCK_TEST_S3 (keys in
// $AWS_*), a bucket of their own, and a proxy that misbehaves on command (fault_proxy.py).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/s3.h"
#include "store/s3_store.h"

namespace penstock::store {

// A child process that ends when its standard input is closed.
class ChildProxy {
 public:
  // `arguments` follow the script's name.
  explicit ChildProxy(const std::vector<std::string>& arguments);
  ~ChildProxy();
  int port() const { return port_; }

 private:
  int pid_ = -1;
  int input_ = -1;
  int port_ = 0;
};

// Made once for the test program: the bucket, the proxy.
struct S3TestServer {
  S3Options options;  // Straight to the server.
  std::string host;   // "127.0.0.1:18100"
  std::string bucket;
  std::unique_ptr<ChildProxy> proxy;

  static S3TestServer& get();
};

Result<void> create_bucket(const std::string& bucket, const S3Options& options);

class S3Test : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Retries quickly, so that tests of failures take milliseconds.
  static S3Options direct_options();
  static S3Options proxy_options();
  // A store under a prefix that no other test uses.
  std::unique_ptr<S3Store> open(const S3Options& options, const S3StoreSettings& settings = {});

  // How many uploads of such a key were begun and neither finished nor aborted.
  size_t uploads_left(S3Store& store, const std::string& key);

  static void set_rules(const std::string& json);
  // The JSON that the proxy keeps under /-/NAME.
  static std::string proxy_state(const std::string& name);

  std::string prefix_;
  std::vector<std::string> log_;  // All that was logged during the test.
};

std::vector<std::byte> random_bytes(size_t size, uint64_t seed);
std::span<const std::byte> as_bytes(std::string_view text);
std::string as_text(std::span<const std::byte> bytes);

}  // namespace penstock::store
