// The checksums that S3 may declare for an object besides its etag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "penstock/result.h"
#include "store/http_client.h"

namespace penstock::store {

uint64_t crc64nvme(std::span<const std::byte> bytes);

// Compares a whole object with the x-amz-checksum-* header of its answer, where there is one for
// the object as a whole. kCorrupt, retryable, when they differ.
Result<void> check_declared_checksum(const HttpResponse& response,
                                     std::span<const std::byte> bytes);

// The same with the MD5 in the etag, where the etag is one.
Result<void> check_etag_md5(const HttpResponse& response, std::string_view etag,
                            std::span<const std::byte> bytes);

}  // namespace penstock::store
