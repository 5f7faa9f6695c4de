// What put() keeps with an object in S3: metadata named and written the way rclone does it, so that
// each reads what the other wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/store.h"
#include "store/aws_sigv4.h"
#include "store/http_client.h"

namespace penstock::store {

// The headers for what is to be kept.
std::vector<NameValue> kept_headers(const PutOptions& options);

// Fills in what was kept, from the headers of an answer to GET or HEAD. Metadata is anybody's: what
// makes no sense is not there.
void read_kept(const HttpResponse& response, ObjectInfo& info);

// Seconds since the epoch, with as many decimals as it takes: "1700000000.123456789".
std::string format_kept_time(int64_t mtime_ns);
std::optional<int64_t> parse_kept_time(std::string_view text);
// Octal, alone or as the st_mode of a regular file: "644", "0100644".
std::optional<uint32_t> parse_kept_mode(std::string_view text);

}  // namespace penstock::store
