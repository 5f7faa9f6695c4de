// What goes wrong for good: the errors say what to do, and never a secret.
#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "s3_fixture.h"

namespace penstock::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class S3ErrorsTest : public S3Test {
 protected:
  static Error error_of(ObjectStore& store) {
    std::array<std::byte, 8> into;
    const auto got = store.get("k", 0, into);
    return got.ok() ? make_error(ErrorCode::kInvalid, "no error") : got.error();
  }
};

TEST_F(S3ErrorsTest, MissingBucket) {
  auto store = make_s3_store("no-such-bucket-here", "", direct_options(), {});
  const Error error = error_of(**store);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.detail, HasSubstr("there is no bucket 'no-such-bucket-here'"));
  EXPECT_EQ((*store)->list({}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*store)->put("k", {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*store)->remove(std::string("k")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*store)->remove(std::vector<std::string>{"k", "l"}).error().code,
            ErrorCode::kNotFound);
}

TEST_F(S3ErrorsTest, WrongSecret) {
  S3Options options = direct_options();
  options.secret_key = "hush-wrong-secret-hush";
  const auto store = open(options);
  for (const Error& error : {error_of(*store), store->head("k").error(), store->list({}).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kPermission);
    EXPECT_THAT(error.detail, HasSubstr("the secret key is wrong, or a proxy changed"));
  }
}

TEST_F(S3ErrorsTest, UnknownAccessKey) {
  S3Options options = direct_options();
  options.access_key = "nobody";
  const Error error = error_of(*open(options));
  EXPECT_EQ(error.code, ErrorCode::kPermission);
  EXPECT_THAT(error.detail, HasSubstr("does not know this access key"));
}

TEST_F(S3ErrorsTest, NoCredentials) {
  S3Options options = direct_options();
  options.access_key.clear();
  options.secret_key.clear();
  const auto store = open(options);
  for (const Error& error : {error_of(*store), store->head("k").error()}) {
    EXPECT_EQ(error.code, ErrorCode::kPermission);
    EXPECT_THAT(error.detail, AllOf(HasSubstr("access denied"), HasSubstr("was not signed")));
  }
}

TEST_F(S3ErrorsTest, NobodyListens) {
  S3Options options = direct_options();
  options.endpoint = "http://127.0.0.1:1";
  options.attempts = 2;
  const Error error = error_of(*open(options));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_TRUE(error.retryable);
  EXPECT_THAT(error.detail, AllOf(HasSubstr("127.0.0.1"), HasSubstr("$AWS_ENDPOINT_URL")));
}

TEST_F(S3ErrorsTest, UnknownHost) {
  S3Options options = direct_options();
  options.endpoint = "http://no-such-host.invalid";
  options.attempts = 1;
  const Error error = error_of(*open(options));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.detail, AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("DNS")));
}

TEST_F(S3ErrorsTest, SecretsAreNeverTold) {
  const std::string secret = "Secret/Key+0123456789";
  const std::string token = "Session//Token==";
  S3Options options = proxy_options();
  options.secret_key = secret;
  options.session_token = token;
  options.attempts = 2;
  std::vector<std::string> told;
  const auto tell = [&](const Error& error) { told.push_back(error.to_string()); };
  {
    const auto store = open(options);
    for (
        const char* rules :
        {"[]", R"([{"answer": 500, "code": "InternalError"}])", R"([{"reset": "before"}])",
         R"([{"answer": 403, "code": "RequestTimeTooSkewed", "headers": {"Date": "x"}}])",
         R"([{"answer": 400, "code": "Secret/Key+0123456789"}])",
         R"([{"answer": 400, "code": "Odd", "headers": {"x-amz-bucket-region": "Session//Token=="}}])"}) {
      set_rules(rules);
      tell(error_of(*store));
      tell(store->put("k", as_bytes("x")).error());
      tell(store->head("k").error());
      tell(store->list({}).error());
      tell(store->copy("k", "l").error());
      tell(store->remove(std::vector<std::string>{"k", "l"}).error());
    }
    told.push_back(store->description());
  }
  set_rules("[]");
  told.insert(told.end(), log_.begin(), log_.end());
  EXPECT_GT(log_.size(), 5U);
  for (const std::string& line : told) {
    EXPECT_THAT(line, AllOf(Not(HasSubstr(secret)), Not(HasSubstr(token))));
  }
}

class S3TlsTest : public S3ErrorsTest {
 protected:
  void SetUp() override {
    S3ErrorsTest::SetUp();
    char name[] = "/tmp/penstock-tls-XXXXXX";
    directory_ = mkdtemp(name);
    const std::string command = fmt::format(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {0}/key.pem -out {0}/cert.pem "
        ">{0}/log 2>&1",
        directory_);
    ASSERT_EQ(system(command.c_str()), 0) << "openssl could not make a certificate";
    proxy_ = std::make_unique<ChildProxy>(std::vector<std::string>{
        S3TestServer::get().host, "--tls", directory_ + "/cert.pem", directory_ + "/key.pem"});
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    S3ErrorsTest::TearDown();
  }
  S3Options tls_options() const {
    S3Options options = direct_options();
    options.endpoint = fmt::format("https://localhost:{}", proxy_->port());
    return options;
  }

  std::string directory_;
  std::unique_ptr<ChildProxy> proxy_;
};

TEST_F(S3TlsTest, OwnAuthorityIsTrustedWhenNamed) {
  S3Options options = tls_options();
  options.ca_file = directory_ + "/cert.pem";
  const auto store = open(options);
  const auto bytes = random_bytes(300'000, 1);
  const auto put = store->put("k", bytes);
  ASSERT_TRUE(put.ok()) << put.error().to_string();
  EXPECT_TRUE(*read_object(*store, "k", kGiB) == bytes);
}

TEST_F(S3TlsTest, UnknownAuthorityIsRefused) {
  S3Options options = tls_options();
  options.ca_file.clear();
  const Error error = error_of(*open(options));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_FALSE(error.retryable);
  EXPECT_THAT(error.detail, HasSubstr("$AWS_CA_BUNDLE"));
  options.verify_tls = false;
  EXPECT_EQ(error_of(*open(options)).code, ErrorCode::kNotFound);
}

TEST_F(S3TlsTest, PlainHttpPortIsExplained) {
  S3Options options = tls_options();
  options.endpoint = "https://" + S3TestServer::get().host;
  options.attempts = 1;
  EXPECT_THAT(error_of(*open(options)).detail, HasSubstr("begins with http://"));
}

}  // namespace
}  // namespace penstock::store
