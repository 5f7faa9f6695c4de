// What tells volumes, and what belongs to them, apart.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::volume {

using VolumeUuid = std::array<std::byte, 16>;

VolumeUuid random_uuid();
// 32 hex digits, and back.
std::string uuid_text(const VolumeUuid& uuid);
std::optional<VolumeUuid> parse_uuid(std::string_view text);

}  // namespace penstock::volume
