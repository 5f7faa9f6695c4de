// Rows about volumes as a whole: settings, totals.
#pragma once

#include <vector>

#include "meta/core.h"

namespace penstock::meta {

// kInvalid where a volume cannot be so.
Result<void> check_settings(const Settings& settings);

Result<VolumeId> add_volume(Connection& db, const Settings& settings, Version horizon);
Result<void> store_settings(Connection& db, VolumeId id, const Settings& settings);
// All, with those that are removed and not yet purged; without totals.
Result<std::vector<Volume>> read_volumes(Connection& db);
// What a version had.
Result<Totals> read_usage(Connection& db, VolumeId id, Version version);

}  // namespace penstock::meta
