#include "store/aws_config.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace penstock::store {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A value ends where a comment begins, which only white space can introduce.
std::string_view without_comment(std::string_view value) {
  for (size_t i = 1; i < value.size(); ++i) {
    const bool blank_before = value[i - 1] == ' ' || value[i - 1] == '\t';
    if (blank_before && (value[i] == '#' || value[i] == ';')) return trim(value.substr(0, i));
  }
  return value;
}

class ProfileParser {
 public:
  explicit ProfileParser(std::string_view file) : file_(file) {}

  Result<AwsProfiles> parse(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      PENSTOCK_TRY(take_line(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::move(profiles_);
  }

 private:
  Error refuse(std::string_view expected) const {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} line {}: expected {}", file_, line_, expected));
  }

  Result<void> take_line(std::string_view raw) {
    const std::string_view line = trim(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') return {};
    if (line[0] == '[') return take_section(line);
    const bool is_nested = (raw[0] == ' ' || raw[0] == '\t') && !parent_.empty();
    const size_t equals = line.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return refuse("'name = value', '[profile]' or a comment");
    }
    if (profile_ == nullptr) return refuse("a '[profile]' before the first setting");
    const std::string name(trim(line.substr(0, equals)));
    const std::string value(without_comment(trim(line.substr(equals + 1))));
    if (is_nested) {
      (*profile_)[parent_ + "." + name] = value;
      return {};
    }
    parent_ = value.empty() ? name : "";
    (*profile_)[name] = value;
    return {};
  }

  Result<void> take_section(std::string_view line) {
    const size_t end = line.find(']');
    if (end == std::string_view::npos) return refuse("']' after the profile's name");
    std::string_view name = trim(line.substr(1, end - 1));
    if (name.starts_with("profile ") || name.starts_with("profile\t")) name = trim(name.substr(8));
    if (name.size() >= 2 && name.front() == '"' && name.back() == '"') {
      name = name.substr(1, name.size() - 2);
    }
    if (name.empty()) return refuse("a profile's name between '[' and ']'");
    profile_ = &profiles_[std::string(name)];
    parent_.clear();
    return {};
  }

  std::string_view file_;
  size_t line_ = 0;
  AwsProfiles profiles_;
  AwsProfile* profile_ = nullptr;
  std::string parent_;  // The setting without a value that indented lines belong to.
};

class SettingsReader {
 public:
  explicit SettingsReader(const AwsSources& sources) : sources_(sources) {}

  Result<S3Options> read() {
    PENSTOCK_TRY(load_profile());
    S3Options options;
    PENSTOCK_TRY(read_credentials(options));
    options.endpoint = first(
        {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
        {service_setting("s3.endpoint_url"), setting("s3.endpoint_url"), setting("endpoint_url")});
    const std::string region = first({"AWS_REGION", "AWS_DEFAULT_REGION"}, {setting("region")});
    if (!region.empty()) options.region = region;
    options.ca_file = first({"AWS_CA_BUNDLE"}, {setting("ca_bundle")});
    options.style = PENSTOCK_TRY(address_style());
    return options;
  }

 private:
  std::string variable(const char* name) const { return sources_.variable(name).value_or(""); }
  std::string setting(std::string_view name) const { return find(profile_, name); }
  // A profile's `services = x` points to the section "[services x]".
  std::string service_setting(std::string_view name) const {
    const auto services = profiles_.find("services " + setting("services"));
    return services == profiles_.end() ? "" : find(services->second, name);
  }
  static std::string find(const AwsProfile& profile, std::string_view name) {
    const auto found = profile.find(name);
    return found == profile.end() ? "" : found->second;
  }

  std::string first(std::initializer_list<const char*> variables,
                    std::initializer_list<std::string> settings) const {
    for (const char* name : variables) {
      if (std::string value = variable(name); !value.empty()) return value;
    }
    for (const std::string& value : settings) {
      if (!value.empty()) return value;
    }
    return "";
  }

  std::string path_of(const char* override_variable, const char* file) const {
    const std::string chosen = variable(override_variable);
    if (!chosen.empty()) return chosen;
    const std::string home = variable("HOME");
    return home.empty() ? "" : home + "/.aws/" + file;
  }

  Result<void> load_file(const std::string& path) {
    if (path.empty()) return {};
    const std::optional<std::string> text = PENSTOCK_TRY(sources_.file(path));
    if (!text) return {};
    AwsProfiles found = PENSTOCK_TRY(parse_aws_profiles(*text, path));
    for (auto& [name, settings] : found) {
      for (auto& [key, value] : settings) profiles_[name][key] = value;
    }
    return {};
  }

  // The credentials file comes second: what it says wins.
  Result<void> load_profile() {
    PENSTOCK_TRY(load_file(path_of("AWS_CONFIG_FILE", "config")));
    PENSTOCK_TRY(load_file(path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials")));
    const std::string wanted = variable("AWS_PROFILE");
    profile_name_ = wanted.empty() ? "default" : wanted;
    const auto found = profiles_.find(profile_name_);
    if (found != profiles_.end()) {
      profile_ = found->second;
    } else if (!wanted.empty()) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("$AWS_PROFILE names the profile '{}', which is neither in {} "
                                    "nor in {}",
                                    wanted, path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                                    path_of("AWS_CONFIG_FILE", "config")));
    }
    return {};
  }

  Result<void> read_credentials(S3Options& options) const {
    options.access_key = variable("AWS_ACCESS_KEY_ID");
    options.secret_key = variable("AWS_SECRET_ACCESS_KEY");
    options.session_token = variable("AWS_SESSION_TOKEN");
    if (options.access_key.empty() != options.secret_key.empty()) {
      return make_error(ErrorCode::kInvalid,
                        "of $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY only one is set: set "
                        "both or neither");
    }
    if (!options.access_key.empty()) return {};
    options.access_key = setting("aws_access_key_id");
    options.secret_key = setting("aws_secret_access_key");
    options.session_token = setting("aws_session_token");
    if (options.access_key.empty() != options.secret_key.empty()) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("profile '{}' has only one of aws_access_key_id and "
                                    "aws_secret_access_key",
                                    profile_name_));
    }
    return options.access_key.empty() ? refuse_other_sources() : Result<void>();
  }

  // Signing in elsewhere is not ours to do; going on unsigned would end in a riddle.
  Result<void> refuse_other_sources() const {
    constexpr std::array kOthers = {"credential_process", "role_arn", "sso_session",
                                    "sso_start_url", "credential_source"};
    for (const char* name : kOthers) {
      if (setting(name).empty()) continue;
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("profile '{0}' takes its credentials from {1}, which is not supported; run "
                      "eval \"$(aws configure export-credentials --profile {0} --format env)\"",
                      profile_name_, name));
    }
    return {};
  }

  Result<AddressStyle> address_style() const {
    const std::string style = setting("s3.addressing_style");
    if (style.empty() || style == "auto") return AddressStyle::kAuto;
    if (style == "path") return AddressStyle::kPath;
    if (style == "virtual") return AddressStyle::kVirtualHost;
    return make_error(ErrorCode::kInvalid,
                      fmt::format("profile '{}': s3 addressing_style is path, virtual or auto, "
                                  "not '{}'",
                                  profile_name_, style));
  }

  const AwsSources& sources_;
  AwsProfiles profiles_;
  AwsProfile profile_;
  std::string profile_name_;
};

Result<std::optional<std::string>> read_small_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return std::optional<std::string>();
    return errno_error(error, "open " + path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return errno_error(EIO, "read " + path);
  return std::optional<std::string>(std::move(text).str());
}

}  // namespace

Result<AwsProfiles> parse_aws_profiles(std::string_view text, std::string_view file) {
  return ProfileParser(file).parse(text);
}

Result<S3Options> s3_options_from(const AwsSources& sources) {
  return SettingsReader(sources).read();
}

Result<S3Options> s3_options_from_environment() {
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return s3_options_from({variable, read_small_file});
}

}  // namespace penstock::store
