// Whether a checkpoint is one, as far as its manifest and the sizes of its files tell.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/manifest.h"
#include "checkpoint/source.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

// kCorrupt names what is wrong, another step too where one is given; errors of the device or the
// network are passed on.
Result<Manifest> examine(Source& source, std::optional<uint64_t> step);
Found describe(const std::string& path, uint64_t step, const Result<Manifest>& manifest);

}  // namespace penstock::checkpoint
