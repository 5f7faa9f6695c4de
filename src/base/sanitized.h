// For tests that measure memory, or that would take minutes where everything is slower.
#pragma once

namespace penstock {

#ifdef PENSTOCK_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace penstock
