#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/mount_command.h"
#include "cli/output.h"
#include "volume/pen.h"

namespace {

// A closed standard stream would be the number of the next file that is opened, and written to.
void open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

// Our own code does not throw. What can still come here is the standard library out of memory or
// threads.
int run_guarded(const penstock::cli::Run& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    penstock::cli::tell("penstock: {}; is a limit on memory or processes too low (ulimit -a)?\n",
                        error.what());
    return penstock::cli::kExitFailed;
  }
}

// mount(8) calls us in its own way.
void parse(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  bool is_command = false;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    is_command |= argc > 1 && command->get_name() == words[1];
  }
  const auto call = penstock::cli::mount_call(words, is_command);
  if (!call) return app.parse(argc, argv);
  if (call->empty()) std::exit(penstock::cli::kExitOk);                 // mount --fake
  std::vector<std::string> reversed(call->rbegin(), call->rend() - 1);  // As CLI11 takes them.
  app.parse(std::move(reversed));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace penstock::cli;
  open_standard_streams();
  penstock::volume::add_pen_scheme();
  CLI::App app("Penstock: the storage data plane for AI training.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Try: penstock doctor     penstock bench /path     penstock sync FROM TO     penstock "
      "COMMAND --help");

  Run run;
  add_doctor_command(app, run);
  add_bench_command(app, run);
  add_sync_command(app, run);
  add_cache_command(app, run);
  add_load_command(app, run);
  add_pack_command(app, run);
  add_checkpoint_command(app, run);
  add_volume_command(app, run);
  add_mount_command(app, run);
  add_umount_command(app, run);
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too, and are no error; the rest is one code for scripts.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return run_guarded(run);
}
