#include "volume/uuid.h"

#include <fmt/core.h>

#include <random>

namespace penstock::volume {

VolumeUuid random_uuid() {
  std::random_device device;
  VolumeUuid uuid;
  for (std::byte& byte : uuid) byte = static_cast<std::byte>(device());
  uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x40};
  uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

std::string uuid_text(const VolumeUuid& uuid) {
  std::string text;
  for (const std::byte byte : uuid) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::optional<VolumeUuid> parse_uuid(std::string_view text) {
  VolumeUuid uuid;
  if (text.size() != 2 * uuid.size()) return std::nullopt;
  for (size_t i = 0; i < uuid.size(); ++i) {
    unsigned value = 0;
    for (const char c : text.substr(2 * i, 2)) {
      const bool decimal = c >= '0' && c <= '9';
      if (!decimal && (c < 'a' || c > 'f')) return std::nullopt;
      value = value * 16 + static_cast<unsigned>(decimal ? c - '0' : c - 'a' + 10);
    }
    uuid[i] = static_cast<std::byte>(value);
  }
  return uuid;
}

}  // namespace penstock::volume
