// Operations for people to read.
#pragma once

#include <string>

#include "volume/operation.h"

namespace penstock::volume {

// Its kind and its fields, without braces: "operation": "create", "parent": 1, "name": "a", ...
// Times are nanoseconds since 1970; bytes of names that are no UTF-8 are replaced.
std::string operation_fields(const Operation& operation);

}  // namespace penstock::volume
