// penstock volume create, list, show, set, delete.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/mount_command.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/volume_command.h"
#include "tune/text.h"
#include "volume/presets.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

Result<void> read_settings(const VolumeArguments& arguments, volume::NewVolume& made) {
  if (!arguments.compression.empty()) {
    made.codec = PENSTOCK_TRY(codec::parse_codec(arguments.compression));
  }
  if (!arguments.retention.empty()) {
    made.retention = PENSTOCK_TRY(parse_retention(arguments.retention));
  }
  if (!arguments.quota_bytes.empty()) {
    made.quota.bytes = PENSTOCK_TRY(parse_size(arguments.quota_bytes));
  }
  if (!arguments.quota_files.empty()) {
    made.quota.inodes = PENSTOCK_TRY(parse_size(arguments.quota_files));
  }
  return {};
}

Result<volume::NewVolume> new_volume(const VolumeArguments& arguments) {
  volume::NewVolume made;
  made.name = arguments.name;
  made.store = arguments.store;
  if (!arguments.preset.empty()) {
    const volume::Preset* const preset = volume::find_preset(arguments.preset);
    if (preset == nullptr) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("there is no preset '{}': penstock volume create --help shows "
                                    "them",
                                    arguments.preset));
    }
    made.block_bytes = preset->block_bytes;
    made.codec = preset->codec;
    made.retention = preset->retention;
  }
  if (!arguments.block_size.empty()) {
    made.block_bytes = PENSTOCK_TRY(parse_size(arguments.block_size));
  }
  PENSTOCK_TRY(read_settings(arguments, made));
  return made;
}

Result<std::string> create(const VolumeArguments& arguments) {
  volume::NewVolume made = PENSTOCK_TRY(new_volume(arguments));
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  std::string directory;
  if (arguments.name.find('/') == std::string::npos) {
    directory = PENSTOCK_TRY(registry.new_directory(arguments.name));
  } else {
    const volume::VolumeAddress address = PENSTOCK_TRY(registry.resolve(arguments.name));
    directory = address.directory;
    made.name = address.name.empty() ? directory.substr(directory.rfind('/') + 1) : address.name;
  }
  PENSTOCK_TRY(volume::check_volume_name(made.name));
  PENSTOCK_TRY(volume::create_host(directory, made, {}));
  return directory;
}

nlohmann::json settings_json(const meta::Settings& settings) {
  return {
      {"name", settings.name},
      {"block_bytes", settings.block_bytes},
      {"compression", codec::codec_name(settings.codec.codec)},
      {"retention_seconds",
       settings.retention ? nlohmann::json(static_cast<double>(settings.retention->count()) / 1e9)
                          : nlohmann::json()},
      {"store", settings.store},
      {"quota_bytes", settings.quota.bytes},
      {"quota_files", settings.quota.inodes}};
}

struct Shown {
  volume::VolumeStatus volume;
  std::string directory;
};

Result<Shown> look_at(const std::string& text) {
  const OpenVolume open = PENSTOCK_TRY(open_volume(text));
  return Shown{PENSTOCK_TRY(open.admin->status(open.name)), open.address.directory};
}

Result<std::string> metrics_of(const std::string& text) {
  const OpenVolume open = PENSTOCK_TRY(open_volume(text));
  return open.admin->metrics(open.name);
}

std::string quota_text(uint64_t used, uint64_t quota, bool bytes) {
  const auto text = [&](uint64_t count) {
    return bytes ? format_size(count) : group_digits(count);
  };
  return quota == 0 ? text(used) : fmt::format("{} of {}", text(used), text(quota));
}

std::string waits_text(const volume::Pending& pending) {
  if (pending.content_bytes == 0) return "nothing";
  std::string text = fmt::format("{} to be stored", format_size(pending.content_bytes));
  if (pending.oldest == 0) return text;
  const Nanoseconds age(std::max<meta::Time>(time_now() - pending.oldest, 0));
  return text + fmt::format(", the oldest since {} ({} ago)", format_time(pending.oldest),
                            format_duration(age));
}

std::string render_text(const Shown& shown) {
  const meta::Settings& settings = shown.volume.settings;
  const volume::HostStatus& status = shown.volume.host;
  std::string text = fmt::format("{}\n", printable(settings.name));
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<10}  {}\n", name, value);
  };
  line("holds", fmt::format("{} in {} files and directories",
                            quota_text(shown.volume.totals.bytes, settings.quota.bytes, true),
                            quota_text(shown.volume.totals.inodes, settings.quota.inodes, false)));
  line("stored", fmt::format("{} in {} objects, {} of it in use", format_size(status.stored_bytes),
                             group_digits(status.objects),
                             format_share(status.live_bytes, status.stored_bytes)));
  line("waits", waits_text(status.pending));
  line("version", fmt::format("{}", status.version));
  line("retention", format_retention(settings.retention));
  line("blocks", fmt::format("{}, {}", format_size(settings.block_bytes),
                             codec::codec_name(settings.codec.codec)));
  line("store", settings.store.empty() ? "beside the metadata" : printable(settings.store));
  line("directory", printable(shown.directory));
  if (!shown.volume.mounted_at.empty()) line("mounted", printable(shown.volume.mounted_at));
  for (const meta::Snapshot& snapshot : shown.volume.snapshots) {
    line("snapshot", fmt::format("{} of {}", printable(snapshot.name), format_time(snapshot.time)));
  }
  return text;
}

nlohmann::json render_json(const Shown& shown) {
  const volume::HostStatus& status = shown.volume.host;
  const meta::Time oldest = status.pending.oldest;
  nlohmann::json json = settings_json(shown.volume.settings);
  nlohmann::json snapshots = nlohmann::json::array();
  for (const meta::Snapshot& snapshot : shown.volume.snapshots) {
    snapshots.push_back({{"name", snapshot.name},
                         {"version", snapshot.version},
                         {"time", static_cast<double>(snapshot.time) / 1e9}});
  }
  json.update(
      {{"schema", 1},
       {"directory", shown.directory},
       {"mounted_at", shown.volume.mounted_at.empty() ? nlohmann::json()
                                                      : nlohmann::json(shown.volume.mounted_at)},
       {"bytes", shown.volume.totals.bytes},
       {"files", shown.volume.totals.inodes},
       {"stored_bytes", status.stored_bytes},
       {"live_bytes", status.live_bytes},
       {"objects", status.objects},
       {"pending_bytes", status.pending.content_bytes},
       {"pending_since",
        oldest == 0 ? nlohmann::json() : nlohmann::json(static_cast<double>(oldest) / 1e9)},
       {"version", status.version},
       {"snapshots", std::move(snapshots)}});
  return json;
}

Result<void> change(const VolumeArguments& arguments) {
  const OpenVolume open = PENSTOCK_TRY(open_volume(arguments.name));
  meta::Settings settings = PENSTOCK_TRY(open.admin->status(open.name)).settings;
  volume::NewVolume changed{.name = settings.name,
                            .codec = settings.codec,
                            .retention = settings.retention,
                            .quota = settings.quota};
  PENSTOCK_TRY(read_settings(arguments, changed));
  settings.codec = changed.codec;
  settings.retention = changed.retention;
  settings.quota = changed.quota;
  return open.admin->set_settings(open.name, settings);
}

Result<void> remove(const VolumeArguments& arguments) {
  if (!arguments.yes) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("this deletes '{}' with its content and its history, for ever; say "
                    "--yes if that is what you want",
                    arguments.name));
  }
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  const volume::VolumeAddress address = PENSTOCK_TRY(registry.resolve(arguments.name));
  // Not through another process: whoever uses the volume is to stop that first.
  Result<std::shared_ptr<volume::Host>> host = volume::open_host(address.directory, {});
  if (!host.ok()) return explain_busy(host.error(), arguments.name, address.directory);
  const std::vector<std::string> volumes = PENSTOCK_TRY((*host)->volumes());
  PENSTOCK_TRY((*host)->remove(address.name.empty() ? volumes.front() : address.name));
  PENSTOCK_TRY((*host)->gc({}));
  host->reset();
  PENSTOCK_TRY(registry.remove_alias(arguments.name));
  if (volumes.size() > 1) return {};
  io::FileSystem* const fs = PENSTOCK_TRY(io::process_file_system());
  return io::remove_tree(*fs, address.directory);
}

}  // namespace

int run_volume_create(const VolumeArguments& arguments) {
  const Result<std::string> directory = create(arguments);
  if (!directory.ok()) return fail_volume("create", directory.error());
  if (arguments.json) {
    return print_volume("create", json_text({{"schema", 1}, {"directory", *directory}}), kExitOk);
  }
  return print_volume("create",
                      fmt::format("made {}; now: penstock mount {} DIR\n", printable(*directory),
                                  printable(arguments.name)),
                      kExitOk);
}

int run_volume_list(const VolumeArguments& arguments) {
  const Result<volume::Registry> registry = user_registry();
  if (!registry.ok()) return fail_volume("list", registry.error());
  const Result<std::vector<std::string>> names = registry->names();
  if (!names.ok()) return fail_volume("list", names.error());
  if (arguments.json) {
    return print_volume("list", json_text({{"schema", 1}, {"volumes", *names}}), kExitOk);
  }
  std::string text;
  for (const std::string& name : *names) text += printable(name) + "\n";
  if (names->empty()) tell("there are no volumes yet: penstock volume create NAME\n");
  return print_volume("list", text, kExitOk);
}

int run_volume_show(const VolumeArguments& arguments) {
  if (arguments.metrics) {
    const Result<std::string> text = metrics_of(arguments.name);
    if (!text.ok()) return fail_volume("show", text.error());
    return print_volume("show", *text, kExitOk);
  }
  const Result<Shown> shown = look_at(arguments.name);
  if (!shown.ok()) return fail_volume("show", shown.error());
  return print_volume("show", arguments.json ? json_text(render_json(*shown)) : render_text(*shown),
                      kExitOk);
}

int run_volume_set(const VolumeArguments& arguments) {
  const Result<void> changed = change(arguments);
  return changed.ok() ? kExitOk : fail_volume("set", changed.error());
}

int run_volume_delete(const VolumeArguments& arguments) {
  const Result<void> removed = remove(arguments);
  return removed.ok() ? kExitOk : fail_volume("delete", removed.error());
}

}  // namespace penstock::cli
