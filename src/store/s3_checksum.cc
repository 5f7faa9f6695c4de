#include "store/s3_checksum.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "codec/crc.h"
#include "store/aws_sigv4.h"

namespace penstock::store {

namespace {

// Eight bytes per step. ISA-L knows this polynomial from version 2.31 on, which distributions lack.
class CrcTables {
 public:
  explicit constexpr CrcTables(uint64_t reflected_polynomial) {
    for (uint64_t i = 0; i < 256; ++i) {
      uint64_t crc = i;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc & 1) != 0 ? crc >> 1 ^ reflected_polynomial : crc >> 1;
      }
      tables_[0][i] = crc;
    }
    for (size_t k = 1; k < 8; ++k) {
      for (size_t i = 0; i < 256; ++i) {
        tables_[k][i] = tables_[k - 1][i] >> 8 ^ tables_[0][tables_[k - 1][i] & 0xFF];
      }
    }
  }

  uint64_t update(uint64_t crc, std::span<const std::byte> bytes) const {
    static_assert(std::endian::native == std::endian::little);
    while (bytes.size() >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      word ^= crc;
      crc = 0;
      for (size_t k = 0; k < 8; ++k) crc ^= tables_[7 - k][word >> (8 * k) & 0xFF];
      bytes = bytes.subspan(8);
    }
    for (const std::byte byte : bytes) {
      crc = crc >> 8 ^ tables_[0][(crc ^ std::to_integer<uint64_t>(byte)) & 0xFF];
    }
    return crc;
  }

 private:
  std::array<std::array<uint64_t, 256>, 8> tables_{};
};

constexpr CrcTables kCrc64Nvme(0x9A6C9329AC4BC9B5);

// Big-endian, as S3 writes it before the base64.
template <typename T>
std::string base64_of(T value) {
  std::array<uint8_t, sizeof(T)> bytes{};
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
  }
  return to_base64(bytes);
}

std::string base64_sha1(std::span<const std::byte> bytes) {
  std::array<uint8_t, 20> digest{};
  size_t size = 0;
  EVP_Q_digest(nullptr, "SHA1", nullptr, bytes.data(), bytes.size(), digest.data(), &size);
  return to_base64(digest);
}

struct Algorithm {
  std::string_view header;
  std::string (*compute)(std::span<const std::byte>);
};

// Cheapest first: one is enough.
constexpr Algorithm kAlgorithms[] = {
    {"x-amz-checksum-crc64nvme", [](auto bytes) { return base64_of(crc64nvme(bytes)); }},
    {"x-amz-checksum-crc32c", [](auto bytes) { return base64_of(codec::crc32c(bytes)); }},
    {"x-amz-checksum-crc32", [](auto bytes) { return base64_of(codec::crc32(bytes)); }},
    {"x-amz-checksum-sha256", [](auto bytes) { return to_base64(sha256(bytes)); }},
    {"x-amz-checksum-sha1", [](auto bytes) { return base64_sha1(bytes); }},
};

}  // namespace

uint64_t crc64nvme(std::span<const std::byte> bytes) {
  return ~kCrc64Nvme.update(~uint64_t{0}, bytes);
}

Result<void> check_declared_checksum(const HttpResponse& response,
                                     std::span<const std::byte> bytes) {
  if (response.header("x-amz-checksum-type") == "COMPOSITE") return {};
  for (const Algorithm& algorithm : kAlgorithms) {
    const std::string_view declared = response.header(algorithm.header);
    // "value-N" is a checksum of the checksums of N parts.
    if (declared.empty() || declared.find('-') != std::string_view::npos) continue;
    if (algorithm.compute(bytes) == declared) return {};
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format("the bytes do not match the {} that the server declares", algorithm.header),
        true);
  }
  return {};
}

Result<void> check_etag_md5(const HttpResponse& response, std::string_view etag,
                            std::span<const std::byte> bytes) {
  const bool is_hex = etag.size() == 32 && std::all_of(etag.begin(), etag.end(), [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
  // Objects encrypted under a key of the customer or of KMS have etags that look like an MD5.
  const std::string_view encryption = response.header("x-amz-server-side-encryption");
  const bool is_other_hash =
      encryption.starts_with("aws:kms") ||
      !response.header("x-amz-server-side-encryption-customer-algorithm").empty();
  if (!is_hex || is_other_hash || to_hex(md5(bytes)) == etag) return {};
  return make_error(ErrorCode::kCorrupt, "the bytes do not match the MD5 in the etag", true);
}

}  // namespace penstock::store
