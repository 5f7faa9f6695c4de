// Where AWS's own tools look for settings: environment variables and the two profile files.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/result.h"
#include "penstock/s3.h"

namespace penstock::store {

// Setting by name, e.g. "region"; what is nested under `s3 =` is "s3.addressing_style".
using AwsProfile = std::map<std::string, std::string, std::less<>>;
using AwsProfiles = std::map<std::string, AwsProfile, std::less<>>;

// Reads the text of a credentials or config file. "[profile x]" and "[x]" are the same profile.
// kInvalid names `file` and the line, and never shows the line: it may hold a secret.
Result<AwsProfiles> parse_aws_profiles(std::string_view text, std::string_view file);

// What s3_options_from_environment() reads, so that tests can give it other things to read.
struct AwsSources {
  std::function<std::optional<std::string>(const char* name)> variable;
  // Nothing when there is no such file.
  std::function<Result<std::optional<std::string>>(const std::string& path)> file;
};
Result<S3Options> s3_options_from(const AwsSources& sources);

}  // namespace penstock::store
