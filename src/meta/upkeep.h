// Work on whole volumes: clones, removal, purging, checking. Inside a turn of the core.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

Result<void> clone_volume(Core& core, std::string_view source, Version version,
                          const Settings& settings);
// It has no name from here on; its rows go when purged.
Result<void> remove_volume(Core& core, std::string_view name);
Result<Purged> purge_rows(Core& core, Time now, uint64_t rows);
Result<std::vector<std::string>> find_contradictions(Core& core);
// Of the B-trees themselves, each index against its table, and the sums of all pages.
Result<void> check_tree(Core& core, std::vector<std::string>& found);
Result<Totals> count_totals(Core& core, VolumeId volume);
// What it counted again, in words.
Result<std::vector<std::string>> mend_counts(Core& core);

// The newest version that is not younger.
Result<std::optional<Version>> newest_version(Core& core, Time time);

}  // namespace penstock::meta
