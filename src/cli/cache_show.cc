#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache/report.h"
#include "cli/cache_command.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/mounts.h"
#include "cli/progress_line.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using cache::DirectoryReport;
using tune::doctor::printable;
using MaybeMount = std::optional<tune::doctor::Mount>;

// "4711" of "4711-9f86d081884c7d65".
std::string pid_of(const std::string& member) {
  return member.substr(0, member.find('-'));
}

std::string members_text(const DirectoryReport& report) {
  if (report.members.empty()) {
    return report.members_unknown ? "not allowed to see who" : "nobody now";
  }
  std::string text =
      fmt::format("{} process{}:", report.members.size(), report.members.size() == 1 ? "" : "es");
  constexpr size_t kShown = 16;
  for (size_t i = 0; i < std::min(report.members.size(), kShown); ++i) {
    const cache::MemberReport& member = report.members[i];
    text += fmt::format("{} {}{}", i == 0 ? "" : ",", pid_of(member.name),
                        member.evictor ? " (evicts)" : "");
  }
  if (report.members.size() > kShown) text += " …";
  return text;
}

std::string used_text(const DirectoryReport& report) {
  std::string text = format_size(report.all.bytes);
  if (report.state) {
    text += fmt::format(" of {} ({}){}", format_size(report.state->limit),
                        format_share(report.all.bytes, report.state->limit),
                        report.members.empty() ? " when it was last in use" : "");
  }
  return text;
}

// "93.1 % of 14.2 TiB read since 2026-03-01 10:22"
std::string hits_text(const cache::Totals& totals) {
  const uint64_t all = totals.hit_bytes + totals.miss_bytes;
  const std::string since = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(totals.since_s));
  if (all == 0) return fmt::format("nothing was read since {}", since);
  return fmt::format("{:.1f} % of {} read since {}",
                     100.0 * static_cast<double>(totals.hit_bytes) / static_cast<double>(all),
                     format_size(all), since);
}

std::string entries_text(const DirectoryReport& report) {
  const uint64_t windows = report.all.entries - report.small.entries;
  return fmt::format("{}: {} windows ({}), {} small ({})", group_digits(report.all.entries),
                     group_digits(windows), format_size(report.all.bytes - report.small.bytes),
                     group_digits(report.small.entries), format_size(report.small.bytes));
}

std::string table_of_sources(const DirectoryReport& report) {
  if (report.sources.empty()) return "";
  const bool sampled = report.looked_at < report.all.entries;
  std::string text = fmt::format("\n  {:>10}  {:>12}  {}\n", "size", "entries", "from");
  for (const cache::SourceUse& source : report.sources) {
    text += fmt::format("  {:>10}  {:>12}  {}\n",
                        fmt::format("{}{}", sampled ? "~" : "", format_size(source.bytes)),
                        group_digits(source.entries),
                        source.folder.empty() ? "others" : printable(source.folder));
  }
  if (sampled) {
    text += fmt::format("  (estimated from {} entries; --objects reads all)\n",
                        group_digits(report.looked_at));
  }
  return text;
}

std::string table_of_objects(const DirectoryReport& report) {
  std::string text = fmt::format("\n  {:>10}  {:>10}  {:>6}  {}\n", "cached", "size", "", "object");
  for (const cache::ObjectUse& object : report.objects) {
    text += fmt::format("  {:>10}  {:>10}  {:>6}  {}\n", format_size(object.cached_bytes),
                        format_size(object.size), format_share(object.cached_bytes, object.size),
                        printable(object.url));
  }
  if (report.objects_left_out > 0) {
    text +=
        fmt::format("  and {} entries of more objects\n", group_digits(report.objects_left_out));
  }
  return text;
}

std::string render_text(const DirectoryReport& report, const MaybeMount& mount, bool objects) {
  std::string text = fmt::format("{}\n", printable(report.path));
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<8}  {}\n", name, value);
  };
  line("used", used_text(report));
  line("free", fmt::format("{} of {} on {}", format_size(report.space.available_bytes),
                           format_size(report.space.total_bytes),
                           mount ? fmt::format("the {} that is mounted at {}", mount->type,
                                               printable(mount->point))
                                 : "its file system"));
  line("entries", entries_text(report));
  if (report.state && report.state->totals.since_s > 0) {
    line("hits", hits_text(report.state->totals));
  }
  line("used by", members_text(report));
  if (report.damaged > 0) {
    line("damaged", fmt::format("{} of {} looked at: penstock cache check --repair",
                                group_digits(report.damaged), group_digits(report.looked_at)));
  }
  if (report.foreign > 0) {
    line("foreign", fmt::format("{} files that are not the cache's: penstock cache check",
                                group_digits(report.foreign)));
  }
  text += objects ? table_of_objects(report) : table_of_sources(report);
  return text;
}

nlohmann::json render_members(const DirectoryReport& report) {
  nlohmann::json members = nlohmann::json::array();
  for (const cache::MemberReport& member : report.members) {
    members.push_back({{"name", member.name},
                       {"pid", std::stoll(pid_of(member.name))},
                       {"evictor", member.evictor}});
  }
  return members;
}

nlohmann::json render_totals(const cache::Totals& totals) {
  const uint64_t all = totals.hit_bytes + totals.miss_bytes;
  const double rate = static_cast<double>(totals.hit_bytes) / static_cast<double>(all);
  return {{"hit_bytes", totals.hit_bytes},
          {"miss_bytes", totals.miss_bytes},
          {"hit_rate", all > 0 ? nlohmann::json(rate) : nlohmann::json()},
          {"since", totals.since_s}};
}

nlohmann::json render_json(const DirectoryReport& report, const MaybeMount& mount,
                           bool with_objects) {
  nlohmann::json sources = nlohmann::json::array();
  for (const cache::SourceUse& source : report.sources) {
    sources.push_back(
        {{"folder", source.folder}, {"entries", source.entries}, {"bytes", source.bytes}});
  }
  const auto sums = [](const cache::EntrySums& of) {
    return nlohmann::json{{"entries", of.entries}, {"bytes", of.bytes}};
  };
  const cache::EntrySums windows{report.all.entries - report.small.entries,
                                 report.all.bytes - report.small.bytes};
  nlohmann::json json = {
      {"path", report.path},
      {"used_bytes", report.all.bytes},
      {"limit_bytes", report.state ? nlohmann::json(report.state->limit) : nlohmann::json()},
      {"free_bytes", report.space.available_bytes},
      {"total_bytes", report.space.total_bytes},
      {"file_system", mount ? nlohmann::json(mount->type) : nlohmann::json()},
      {"mount_point", mount ? nlohmann::json(mount->point) : nlohmann::json()},
      {"entries", report.all.entries},
      {"windows", sums(windows)},
      {"small", sums(report.small)},
      {"reads", report.state ? render_totals(report.state->totals) : nlohmann::json()},
      {"members", render_members(report)},
      {"foreign", report.foreign},
      {"headers_read", report.looked_at},
      {"damaged_headers", report.damaged},
      {"sources", sources},
  };
  if (!with_objects) return json;
  nlohmann::json objects = nlohmann::json::array();
  for (const cache::ObjectUse& object : report.objects) {
    objects.push_back({{"url", object.url},
                       {"etag", object.etag},
                       {"size_bytes", object.size},
                       {"cached_bytes", object.cached_bytes},
                       {"entries", object.entries}});
  }
  json["objects"] = std::move(objects);
  json["objects_left_out"] = report.objects_left_out;
  return json;
}

}  // namespace

int run_cache_show(const CacheArguments& arguments) {
  cache::ReportOptions options{.objects = arguments.objects};
  options.stop = stop_on_interrupt();
  auto directories = open_caches(arguments.directories());
  if (!directories.ok()) return fail_cache("show", directories.error());
  std::string text;
  nlohmann::json reports = nlohmann::json::array();
  for (const auto& directory : *directories) {
    const Result<DirectoryReport> report = cache::report_directory(*directory, options);
    if (!report.ok()) return fail_cache("show", report.error());
    const MaybeMount mount = mount_of(directory->file_system(), directory->path());
    if (arguments.json) reports.push_back(render_json(*report, mount, arguments.objects));
    if (!text.empty()) text += "\n";
    if (!arguments.json) text += render_text(*report, mount, arguments.objects);
  }
  const nlohmann::json json = {{"schema", 1}, {"directories", std::move(reports)}};
  return print_cache("show",
                     arguments.json
                         ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                         : text,
                     kExitOk);
}

}  // namespace penstock::cli
