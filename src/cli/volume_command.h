// penstock volume create | list | show | set | delete | gc | fsck | snapshot | clone | recover: the
// verbs, and what they share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "penstock/volume.h"
#include "volume/admin.h"
#include "volume/registry.h"

namespace CLI {
class App;
}

namespace penstock::cli {

struct VolumeArguments {
  std::string name;
  bool json = false;
  // show
  bool metrics = false;
  // create, set
  std::string preset;
  std::string block_size;
  std::string compression;
  std::string retention;
  std::string store;
  std::string quota_bytes;
  std::string quota_files;
  std::string rename;
  // delete
  bool yes = false;
  // gc
  bool dry_run = false;
  // fsck
  bool quick = false;
  bool repair = false;
  // recover
  std::string to;
  bool discard = false;
  // snapshot, clone
  std::string other;
  std::string at;
  bool remove = false;
  bool list = false;
};

int run_volume_create(const VolumeArguments& arguments);
int run_volume_list(const VolumeArguments& arguments);
int run_volume_show(const VolumeArguments& arguments);
int run_volume_set(const VolumeArguments& arguments);
int run_volume_delete(const VolumeArguments& arguments);
int run_volume_gc(const VolumeArguments& arguments);
int run_volume_fsck(const VolumeArguments& arguments);
int run_volume_snapshot(const VolumeArguments& arguments);
int run_volume_clone(const VolumeArguments& arguments);
int run_volume_recover(const VolumeArguments& arguments);
CLI::App* add_volume_recover(CLI::App& volume, const std::shared_ptr<VolumeArguments>& arguments);

// Says what went wrong with `penstock volume VERB`, and the exit code that fits.
int fail_volume(std::string_view verb, const Error& error);
int print_volume(std::string_view verb, std::string_view text, int exit_code);
std::string json_text(const nlohmann::json& json);

// A volume, taken over for this command, or asked of the process that has it.
struct OpenVolume {
  volume::VolumeAddress address;
  std::unique_ptr<volume::Admin> admin;
  std::string name;
};
Result<OpenVolume> open_volume(const std::string& text);
Result<volume::Registry> user_registry();
// A time as below; empty: none.
Result<std::optional<meta::Time>> parse_at(const std::string& at);
// kNotFound of a version of then says why; other errors stay.
Error explain_at(const Error& error, const std::optional<meta::Time>& at);
// The version of then; none: the one that is committed for it now.
Result<meta::Version> version_at(volume::Host& host, std::optional<meta::Time> at);

// "2026-11-14 09:00", "2026-11-14T09:00:05", "3h" (ago): nanoseconds since 1970.
Result<meta::Time> parse_time(std::string_view text, meta::Time now);
std::string format_time(meta::Time time);
meta::Time time_now();
// "forever", or as parse_duration reads it.
Result<std::optional<Nanoseconds>> parse_retention(std::string_view text);
std::string format_retention(const std::optional<Nanoseconds>& retention);

}  // namespace penstock::cli
