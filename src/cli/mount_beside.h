// A mount beside others of the same volume: the process that has the volume serves it too.
#pragma once

#include <stop_token>
#include <string>

#include "cli/mount_command.h"
#include "cli/mount_set.h"
#include "volume/control_mount.h"

namespace penstock::cli {

// What is asked of that process.
volume::control::MountRequest request_for(const NewMount& wanted);
// What it does then. kBusy where whoever asked would not see the mount; otherwise as MountSet::add().
Result<volume::control::MountAnswer> answer_mount(MountSet& mounts,
                                                  const volume::control::MountRequest& request,
                                                  const std::stop_token& cancel,
                                                  const std::string& log);

// Says which of the options given only the process that has the volume could follow; nothing where
// there are none.
void note_ignored(const MountArguments& arguments, int32_t owner);
// Returns when what is mounted there is unmounted; does that itself when told to stop.
Result<void> stay_until_unmounted(const std::string& directory, const std::stop_token& stop);

}  // namespace penstock::cli
