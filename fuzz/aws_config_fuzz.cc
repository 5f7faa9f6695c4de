// Any text as a profile file gives settings or an error that names the line and shows none of it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/aws_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::store;  // NOLINT: a small program
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profiles = parse_aws_profiles(text, "FILE");
  if (!profiles.ok() && !profiles.error().detail.starts_with("FILE line ")) std::abort();
  const AwsSources sources{[](const char* name) -> std::optional<std::string> {
                             if (std::string_view(name) == "AWS_CONFIG_FILE") return "FILE";
                             return std::nullopt;
                           },
                           [&](const std::string&) -> penstock::Result<std::optional<std::string>> {
                             return std::optional<std::string>(text);
                           }};
  const auto options = s3_options_from(sources);
  if (options.ok() && options->access_key.empty() != options->secret_key.empty()) std::abort();
  if (options.ok()) static_cast<void>(validate(*options).ok());
  return 0;
}
