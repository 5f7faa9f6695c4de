#pragma once

#include <memory>
#include <optional>

#include "checkpoint/source.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

// A reader of what lies there. kCorrupt where that is no checkpoint, or none of `step` where it is given.
Result<std::unique_ptr<Reader>> open_source(std::unique_ptr<Source> source,
                                            std::optional<uint64_t> step);

}  // namespace penstock::checkpoint
