// Etags of the files of a folder, by number, close together: 25 bytes for one of S3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::data {

class Etags {
 public:
  void add(std::string_view etag);
  // Empty for one that was not added.
  std::string at(size_t number) const;
  uint64_t memory_bytes() const { return bytes_.capacity() + ends_.capacity() * sizeof(ends_[0]); }

 private:
  // One after the other: a letter for how it is written, then as many bytes as up to its end. Pairs of
  // hex digits, as nearly all are, take one byte each.
  std::string bytes_;
  std::vector<uint64_t> ends_;
};

}  // namespace penstock::data
