// Objects as people name them, several at once:
//
//   s3://bucket/train-*.tar    s3://bucket/train-{000..999}.tar    s3://bucket/raw/    tree:/mnt/data
//   pen://volume/train-*.tar, and likewise every scheme that was added
//
// Patterns are those of base/glob.h, and over keys: no shell knows what is in a bucket. An address
// without wildcards is one object, or else everything below it; one with wildcards is every object
// that it matches, and everything below a folder that it matches. A path that is there as it is
// written means itself, whatever characters it has.
//
// Each object's store and key together are the same as for any other way to open it: what was cached
// by one name is found by another (ObjectStore::identity).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/store.h"
#include "store/object_address.h"

namespace penstock::store {

class Selection {
 public:
  // Looks at local paths only. kInvalid for what is no address, kNotFound for a path that is not there.
  // `fs` is for the time of the call.
  static Result<Selection> parse(const std::vector<std::string>& addresses, io::FileSystem& fs);

  static constexpr size_t kNamesMax = 100'000;  // That the braces of one address stand for.
  // Addresses for open_store(); at most kStoresMax. for_each() wants the stores in this order.
  static constexpr size_t kStoresMax = 64;
  const std::vector<std::string>& stores() const { return stores_; }

  // `store` counts in stores(). The object has its etag.
  using Visit = std::function<bool(size_t store, const ObjectInfo& object)>;
  using Missing = std::function<void(const std::string& address)>;
  // Calls `visit` for every object, from this thread, until it answers false; `missing` for each
  // address, or name that its braces stand for, of which there is nothing. A store that is not there,
  // such as a bucket, is an error. An object that two addresses name comes twice.
  Result<void> for_each(std::span<ObjectStore* const> stores, const Visit& visit,
                        const Missing& missing, const CallOptions& options = {}) const;

 private:
  struct Part {
    size_t store = 0;
    std::string front;    // The address in front of the keys, for people.
    std::string pattern;  // Of the keys; braces not expanded. Empty: all of them.
  };
  class Walk;

  Result<void> add(const std::string& address, io::FileSystem& fs);
  Result<void> add_objects(const std::string& address, ObjectAddress parts);
  Result<void> add_path(std::string_view scheme, std::string path, io::FileSystem& fs);
  Result<void> add_part(std::string store, std::string front, std::string pattern);

  std::vector<std::string> stores_;
  std::vector<Part> parts_;
};

}  // namespace penstock::store
