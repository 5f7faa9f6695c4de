// Addresses of the form SCHEME://PLACE/KEY: "s3://bucket/train-*.tar", and those of every scheme that
// was added (add_store_scheme). All else that has an address asks here, so that no layer above knows
// one scheme from another.
// Threads: as for open_store().
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock::store {

struct ObjectAddress {
  std::string
      store;        // For open_store(): "s3://bucket". Of an address that names no place: "s3://".
  std::string key;  // What follows behind the '/', as it was written: a key, a pattern, or nothing.
};

// Nothing for other addresses: paths, "tree:", "file:", "memory:", and schemes that nobody added.
std::optional<ObjectAddress> split_object_address(std::string_view address);

inline bool is_object_address(std::string_view address) {
  return split_object_address(address).has_value();
}

}  // namespace penstock::store
