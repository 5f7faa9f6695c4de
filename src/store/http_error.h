#pragma once

#include <curl/curl.h>

#include <string_view>

#include "penstock/result.h"

namespace penstock::store {

// What a transfer that ended without an answer means, and what to do about it. `text` is libcurl's
// own explanation; it names hosts, never headers.
Error http_transport_error(CURLcode code, int os_errno, std::string_view text);

}  // namespace penstock::store
