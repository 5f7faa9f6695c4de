#pragma once

#include <cstddef>

namespace penstock {

// As memcpy, for what will not be read again soon: large copies go past the caches, which saves
// reading the target's lines before they are overwritten and leaves the caches to others.
void stream_copy(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace penstock
