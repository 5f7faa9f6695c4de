// What was asked for on the command line, in fstab, or both.
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <array>
#include <charconv>
#include <filesystem>

#include "cli/mount_command.h"

namespace penstock::cli {

namespace {

struct Flag {
  std::string_view name;
  bool MountArguments::*set;
  bool value = true;
};

struct Value {
  std::string_view name;
  std::string MountArguments::*set;
};

constexpr auto kFlags = std::to_array<Flag>({
    {"ro", &MountArguments::read_only},
    {"rw", &MountArguments::read_only, false},
    {"noatime", &MountArguments::noatime},
    {"relatime", &MountArguments::relatime},
    {"strictatime", &MountArguments::strictatime},
    {"noexec", &MountArguments::noexec},
    {"exec", &MountArguments::noexec, false},
    {"nosuid", &MountArguments::nosuid},
    {"suid", &MountArguments::nosuid, false},
    {"nodev", &MountArguments::nodev},
    {"dev", &MountArguments::nodev, false},
    {"acl", &MountArguments::acl},
    {"noacl", &MountArguments::acl, false},
    {"allow_other", &MountArguments::no_allow_other, false},
    {"no_allow_other", &MountArguments::no_allow_other},
    {"writeback", &MountArguments::writeback},
    {"gather_writes", &MountArguments::gather_writes},
    {"let_sleep", &MountArguments::let_sleep},
    {"foreground", &MountArguments::foreground},
});

constexpr auto kValues = std::to_array<Value>({
    {"at", &MountArguments::at},
    {"cache_quota", &MountArguments::cache_quota},
    {"memory", &MountArguments::memory},
    {"writeback_max", &MountArguments::writeback_max},
    {"writeback_max_age", &MountArguments::writeback_max_age},
    {"io_timeout", &MountArguments::io_timeout},
    {"log_file", &MountArguments::log_file},
    {"metrics_file", &MountArguments::metrics_file},
    {"slow_request", &MountArguments::slow_request},
    {"uid", &MountArguments::uid},
    {"gid", &MountArguments::gid},
});

// What fstab says to others: mount(8), systemd, the boot.
bool is_for_others(std::string_view option) {
  for (const std::string_view known :
       {"defaults", "auto", "noauto", "user", "nouser", "users", "nofail", "_netdev", "async",
        "default_permissions", "diratime", "nodiratime", "norelatime", "silent", "loud"}) {
    if (option == known) return true;
  }
  return option.empty() || option.starts_with("x-") || option.starts_with("X-") ||
         option.starts_with("comment=") || option.starts_with("user=");
}

Result<void> take_option(MountArguments& arguments, std::string_view option) {
  if (is_for_others(option)) return {};
  const size_t equals = option.find('=');
  std::string name(option.substr(0, equals));
  std::ranges::replace(name, '-', '_');
  const bool has_value = equals != std::string_view::npos;
  for (const Flag& flag : kFlags) {
    if (flag.name != name || has_value) continue;
    arguments.*flag.set = flag.value;
    return {};
  }
  const std::string value(has_value ? option.substr(equals + 1) : std::string_view());
  if (name == "cache_dir" && has_value) {
    arguments.cache_directories.push_back(value);
    return {};
  }
  for (const Value& known : kValues) {
    if (known.name != name || !has_value) continue;
    arguments.*known.set = value;
    return {};
  }
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("-o {}: there is no such option; penstock mount --help lists them", option));
}

template <typename T>
Result<void> take(T& into, std::string_view option, const std::string& text,
                  Result<T> (*parse)(std::string_view)) {
  if (text.empty()) return {};
  Result<T> parsed = parse(text);
  if (!parsed.ok()) return parsed.error().with_context(option);
  into = *parsed;
  return {};
}

Result<Nanoseconds> parse_threshold(std::string_view text) {
  if (text == "0") return Nanoseconds(0);
  return parse_duration(text);
}

// A number, or a name of this machine.
Result<std::optional<uint32_t>> parse_id(std::string_view option, const std::string& text) {
  if (text.empty()) return std::optional<uint32_t>();
  uint32_t id = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failed == std::errc() && end == text.data() + text.size()) return std::optional(id);
  if (option == "--uid") {
    if (const passwd* const user = ::getpwnam(text.c_str())) {
      return std::optional<uint32_t>(user->pw_uid);
    }
  } else if (const group* const group = ::getgrnam(text.c_str())) {
    return std::optional<uint32_t>(group->gr_gid);
  }
  return make_error(ErrorCode::kInvalid,
                    fmt::format("{}: '{}' is neither a number nor known here", option, text));
}

Result<mount::AccessTimes> access_times(const MountArguments& arguments) {
  const int given = arguments.noatime + arguments.relatime + arguments.strictatime;
  if (given > 1) {
    return make_error(ErrorCode::kInvalid,
                      "--noatime, --relatime and --strictatime exclude each other");
  }
  if (arguments.noatime) return mount::AccessTimes::kNever;
  return arguments.strictatime ? mount::AccessTimes::kAlways : mount::AccessTimes::kRelative;
}

Result<std::optional<cache::CacheOptions>> plan_cache(const MountArguments& arguments) {
  if (arguments.cache_directories.empty()) {
    if (arguments.cache_quota.empty()) return std::optional<cache::CacheOptions>();
    return make_error(ErrorCode::kInvalid, "--cache-quota: of which cache? Add --cache-dir DIR");
  }
  cache::CacheOptions options;
  options.directories = arguments.cache_directories;
  PENSTOCK_TRY(take(options.quota, "--cache-quota", arguments.cache_quota, parse_size_or_percent));
  return std::optional(options);
}

Result<volume::HostOptions> plan_host(const MountArguments& arguments) {
  volume::HostOptions host;
  PENSTOCK_TRY(take(host.memory_bytes, "--memory", arguments.memory, parse_size));
  PENSTOCK_TRY(take(host.io_timeout, "--io-timeout", arguments.io_timeout, parse_duration));
  volume::WritebackOptions& writeback = host.writeback;
  PENSTOCK_TRY(
      take(writeback.journal_bytes, "--writeback-max", arguments.writeback_max, parse_size));
  PENSTOCK_TRY(
      take(writeback.max_age, "--writeback-max-age", arguments.writeback_max_age, parse_duration));
  constexpr uint64_t kMemoryMin = 64 * kMiB;
  if (host.memory_bytes < kMemoryMin) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("--memory: at least {}", format_size(kMemoryMin)));
  }
  if (host.io_timeout <= Nanoseconds(0)) {
    return make_error(ErrorCode::kInvalid, "--io-timeout: more than nothing");
  }
  constexpr uint64_t kJournalMin = 256 * kMiB;
  if (writeback.journal_bytes < kJournalMin) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("--writeback-max: at least {}", format_size(kJournalMin)));
  }
  return host;
}

}  // namespace

Result<void> take_mount_options(MountArguments& arguments) {
  const std::vector<std::string> lists = std::move(arguments.options);
  arguments.options.clear();
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      PENSTOCK_TRY(take_option(arguments, rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return {};
}

Result<MountPlan> plan_mount(const MountArguments& arguments) {
  MountPlan plan;
  plan.host = PENSTOCK_TRY(plan_host(arguments));
  plan.cache = PENSTOCK_TRY(plan_cache(arguments));
  mount::MountOptions& mount = plan.mount;
  mount.source = arguments.name;
  mount.access_times = PENSTOCK_TRY(access_times(arguments));
  mount.uid = PENSTOCK_TRY(parse_id("--uid", arguments.uid));
  mount.gid = PENSTOCK_TRY(parse_id("--gid", arguments.gid));
  mount.acl = arguments.acl;
  mount.gather_writes = arguments.gather_writes;
  mount.no_exec = arguments.noexec;
  mount.no_suid = arguments.nosuid;
  mount.no_device = arguments.nodev;
  mount.allow_other = !arguments.no_allow_other;
  mount.stay_awake = !arguments.let_sleep;
  PENSTOCK_TRY(take(mount.slow_request, "--slow-request", arguments.slow_request, parse_threshold));
  if (!arguments.metrics_file.empty()) {
    // The process in the background leaves the current directory.
    plan.metrics_file = std::filesystem::absolute(arguments.metrics_file).string();
  }
  return plan;
}

}  // namespace penstock::cli
