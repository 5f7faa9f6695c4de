#include "store/aws_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct FakeSources {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;

  Result<S3Options> read() const {
    return s3_options_from({[this](const char* name) -> std::optional<std::string> {
                              const auto found = variables.find(name);
                              if (found == variables.end()) return std::nullopt;
                              return found->second;
                            },
                            [this](const std::string& path) -> Result<std::optional<std::string>> {
                              const auto found = files.find(path);
                              if (found == files.end()) return std::optional<std::string>();
                              return std::optional<std::string>(found->second);
                            }});
  }
};

TEST(AwsConfig, NothingSetMeansUnsignedOnAws) {
  const S3Options options = *FakeSources{}.read();
  EXPECT_EQ(options.access_key, "");
  EXPECT_EQ(options.endpoint, "");
  EXPECT_EQ(options.region, "us-east-1");
}

TEST(AwsConfig, EnvironmentWinsOverTheProfile) {
  const FakeSources sources{
      {{"HOME", "/h"},
       {"AWS_ACCESS_KEY_ID", "EA"},
       {"AWS_SECRET_ACCESS_KEY", "ES"},
       {"AWS_SESSION_TOKEN", "ET"},
       {"AWS_ENDPOINT_URL", "http://general"},
       {"AWS_ENDPOINT_URL_S3", "http://s3"},
       {"AWS_DEFAULT_REGION", "r-default"},
       {"AWS_REGION", "r"},
       {"AWS_CA_BUNDLE", "/ca.pem"}},
      {{"/h/.aws/credentials", "[default]\naws_access_key_id=PA\naws_secret_access_key=PS\n"}}};
  const S3Options options = *sources.read();
  EXPECT_EQ(options.access_key, "EA");
  EXPECT_EQ(options.secret_key, "ES");
  EXPECT_EQ(options.session_token, "ET");
  EXPECT_EQ(options.endpoint, "http://s3");
  EXPECT_EQ(options.region, "r");
  EXPECT_EQ(options.ca_file, "/ca.pem");
}

TEST(AwsConfig, ProfileFromBothFiles) {
  const FakeSources sources{
      {{"HOME", "/h"}, {"AWS_PROFILE", "train"}},
      {{"/h/.aws/credentials",
        "# comment\n[default]\naws_access_key_id = D\naws_secret_access_key = D\n\n[train]\r\n"
        "aws_access_key_id = A\r\naws_secret_access_key = S/+=x ; not part of it\r\n"},
       {"/h/.aws/config",
        "[profile train]\nregion = eu-west-3\nca_bundle=/etc/ca.pem\ns3 =\n"
        "    addressing_style = path\n    endpoint_url = http://ceph:7480\nendpoint_url = "
        "http://x\n"
        "aws_access_key_id = from-config\n"}}};
  const S3Options options = *sources.read();
  EXPECT_EQ(options.access_key, "A");
  EXPECT_EQ(options.secret_key, "S/+=x");
  EXPECT_EQ(options.region, "eu-west-3");
  EXPECT_EQ(options.ca_file, "/etc/ca.pem");
  EXPECT_EQ(options.endpoint, "http://ceph:7480");
  EXPECT_EQ(options.style, AddressStyle::kPath);
}

TEST(AwsConfig, ServicesSection) {
  const FakeSources sources{{{"AWS_CONFIG_FILE", "/c"}},
                            {{"/c",
                              "[default]\nservices = local\n[services local]\ns3 =\n"
                              "  endpoint_url = http://minio:9000\n"}}};
  EXPECT_EQ(sources.read()->endpoint, "http://minio:9000");
}

TEST(AwsConfig, ErrorsNameFileAndLineButNotTheText) {
  const FakeSources sources{
      {{"AWS_SHARED_CREDENTIALS_FILE", "/c"}},
      {{"/c", "[default]\naws_access_key_id=A\naws_secret_access_key hushhush\n"}}};
  const auto options = sources.read();
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(options.error().detail, AllOf(HasSubstr("/c line 3"), Not(HasSubstr("hushhush"))));
}

TEST(AwsConfig, RefusesWhatCannotBeMeant) {
  const auto error_of = [](FakeSources sources) {
    const auto options = sources.read();
    return options.ok() ? std::string("accepted") : options.error().detail;
  };
  EXPECT_THAT(error_of({{{"AWS_PROFILE", "nope"}, {"HOME", "/h"}}, {}}),
              AllOf(HasSubstr("'nope'"), HasSubstr("/h/.aws/config")));
  EXPECT_THAT(error_of({{{"AWS_ACCESS_KEY_ID", "A"}}, {}}), HasSubstr("only one is set"));
  EXPECT_THAT(error_of({{{"AWS_CONFIG_FILE", "/c"}}, {{"/c", "[default]\naws_access_key_id=A\n"}}}),
              HasSubstr("only one of"));
  EXPECT_THAT(error_of({{{"AWS_CONFIG_FILE", "/c"}}, {{"/c", "[default]\nrole_arn = x\n"}}}),
              HasSubstr("export-credentials --profile default"));
  EXPECT_THAT(error_of({{{"AWS_CONFIG_FILE", "/c"}}, {{"/c", "region = x\n"}}}),
              HasSubstr("/c line 1"));
  EXPECT_THAT(error_of({{{"AWS_CONFIG_FILE", "/c"}}, {{"/c", "[default\n"}}}), HasSubstr("']'"));
  EXPECT_THAT(error_of({{{"AWS_CONFIG_FILE", "/c"}},
                        {{"/c", "[default]\ns3 =\n addressing_style = sideways\n"}}}),
              HasSubstr("addressing_style"));
}

}  // namespace
}  // namespace penstock::store
