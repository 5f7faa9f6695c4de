#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace penstock::cli {

// What a chosen subcommand does; the return is the process's exit code.
using Run = std::function<int()>;

// Exit codes shared by all commands. doctor adds its own for what it found.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// Each adds its subcommand to `app`; when the user chose it, `run` is set.
void add_bench_command(CLI::App& app, Run& run);
void add_cache_command(CLI::App& app, Run& run);
void add_checkpoint_command(CLI::App& app, Run& run);
void add_doctor_command(CLI::App& app, Run& run);
void add_load_command(CLI::App& app, Run& run);
void add_mount_command(CLI::App& app, Run& run);
void add_pack_command(CLI::App& app, Run& run);
void add_sync_command(CLI::App& app, Run& run);
void add_umount_command(CLI::App& app, Run& run);
void add_volume_command(CLI::App& app, Run& run);

}  // namespace penstock::cli
