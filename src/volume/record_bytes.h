// Numbers and strings in a record, one after the other, little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace penstock::volume {

class RecordWriter {
 public:
  template <typename Number>
    requires std::is_integral_v<Number>
  void number(Number value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// What is not there reads as zero and makes it bad.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
    requires std::is_integral_v<Number>
  Number number() {
    Number value = 0;
    if (const auto taken = take(sizeof(Number)); !taken.empty()) {
      std::memcpy(&value, taken.data(), sizeof(Number));
    }
    return value;
  }
  void raw(std::span<std::byte> into) {
    if (const auto taken = take(into.size()); !taken.empty()) {
      std::memcpy(into.data(), taken.data(), into.size());
    }
  }
  std::string text() {
    const auto taken = take(number<uint32_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // All of it was there, and nothing else.
  bool finished() const { return !bad_ && bytes_.empty(); }
  bool bad() const { return bad_; }
  void set_bad() { bad_ = true; }

 private:
  std::span<const std::byte> take(size_t count) {
    if (bad_ || count > bytes_.size()) {
      bad_ = true;
      return {};
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  std::span<const std::byte> bytes_;
  bool bad_ = false;
};

}  // namespace penstock::volume
