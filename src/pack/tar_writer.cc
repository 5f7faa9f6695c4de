#include "pack/tar_writer.h"

#include <fmt/core.h>

#include <cstring>
#include <numeric>

namespace penstock::pack {

namespace {

constexpr size_t kNameMax = 100;
constexpr uint64_t kSizeMax = uint64_t{1} << 33;

}  // namespace

Result<TarHeader> make_tar_header(std::string_view name, uint64_t size) {
  if (name.empty() || name.size() > kNameMax)
    return make_error(ErrorCode::kInvalid, fmt::format("'{}': 1 to 100 bytes in a tar", name));
  if (size >= kSizeMax)
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' has {} bytes: less than 8 GiB", name, size));
  TarHeader header{};
  const auto put = [&](size_t offset, std::string_view text) {
    std::memcpy(header.data() + offset, text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");
  put(148, "        ");  // Counts as spaces in its own sum.
  put(156, "0");
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  const uint32_t sum = std::accumulate(
      header.begin(), header.end(), uint32_t{0},
      [](uint32_t total, std::byte byte) { return total + std::to_integer<uint32_t>(byte); });
  put(148, fmt::format("{:06o}", sum));
  header[154] = std::byte{0};
  return header;
}

}  // namespace penstock::pack
