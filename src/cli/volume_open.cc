// What the verbs of `penstock volume` share.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/mount_command.h"
#include "cli/output.h"
#include "cli/volume_command.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Local time, in one of the ways in which people write it.
std::optional<time_t> local_time(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* const end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    return std::mktime(&parts);
  }
  return std::nullopt;
}

}  // namespace

int fail_volume(std::string_view verb, const Error& error) {
  tell("penstock volume {}: {}\n", verb, tune::doctor::printable(error.detail));
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

int print_volume(std::string_view verb, std::string_view text, int exit_code) {
  const Result<void> printed = print_all(text);
  if (printed.ok()) return exit_code;
  if (printed.error().os_errno != EPIPE) (void)fail_volume(verb, printed.error());
  return kExitFailed;
}

Result<volume::Registry> user_registry() {
  io::FileSystem* const fs = PENSTOCK_TRY(io::process_file_system());
  return volume::Registry::of_user(*fs);
}

Result<OpenVolume> open_volume(const std::string& text) {
  OpenVolume open;
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  open.address = PENSTOCK_TRY(registry.resolve(text));
  Result<std::unique_ptr<volume::Admin>> admin = volume::open_admin(open.address.directory, {});
  if (!admin.ok()) return explain_busy(admin.error(), text, open.address.directory);
  open.admin = std::move(*admin);
  open.name = open.address.name;
  if (open.name.empty()) open.name = PENSTOCK_TRY(open.admin->volumes()).front();
  return open;
}

std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

meta::Time time_now() {
  return std::chrono::duration_cast<Nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<meta::Time> parse_time(std::string_view text, meta::Time now) {
  if (const auto seconds = local_time(std::string(text))) return int64_t{*seconds} * kSecond;
  const Result<Nanoseconds> ago = parse_duration(text);
  if (ago.ok()) return now - ago->count();
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("'{}' is no time: write '2026-11-14 09:00' (local time), or how long "
                  "ago: 3h",
                  text));
}

std::string format_time(meta::Time time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<time_t>(time / kSecond)));
}

Result<std::optional<meta::Time>> parse_at(const std::string& at) {
  if (at.empty()) return std::optional<meta::Time>();
  return std::optional(PENSTOCK_TRY(parse_time(at, time_now())));
}

Error explain_at(const Error& error, const std::optional<meta::Time>& at) {
  if (!at || error.code != ErrorCode::kNotFound) return error;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("--at: nothing is left of {}: the volume is younger, or its "
                                "retention is over (penstock volume set --retention)",
                                format_time(*at)));
}

Result<meta::Version> version_at(volume::Host& host, std::optional<meta::Time> at) {
  if (!at) return host.commit();
  const Result<meta::Version> version = host.database().version_at(*at);
  if (version.ok()) return version;
  return explain_at(version.error(), at);
}

Result<std::optional<Nanoseconds>> parse_retention(std::string_view text) {
  if (text == "forever") return std::optional<Nanoseconds>();
  if (text == "0") return std::optional(Nanoseconds(0));
  const Result<Nanoseconds> time = parse_duration(text);
  if (!time.ok()) return time.error().with_context("--retention (a time, or forever)");
  return std::optional(*time);
}

std::string format_retention(const std::optional<Nanoseconds>& retention) {
  if (!retention) return "forever";
  return retention->count() == 0 ? "none" : format_duration(*retention);
}

}  // namespace penstock::cli
