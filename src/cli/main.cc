#include <fmt/core.h>

#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace penstock::cli;
  CLI::App app("Penstock: the storage data plane for AI training.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.footer("Try: penstock doctor     penstock bench /path     penstock COMMAND --help");

  Run run;
  add_doctor_command(app, run);
  add_bench_command(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too, and are no error; the rest is one code for scripts.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return run();
}
