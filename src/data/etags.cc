#include "data/etags.h"

namespace penstock::data {

namespace {

constexpr char kText = 't';
constexpr char kHex = 'h';
constexpr std::string_view kDigits = "0123456789abcdef";

bool is_hex(std::string_view text) {
  return text.size() % 2 == 0 && text.find_first_not_of(kDigits) == std::string_view::npos;
}

char packed(char high, char low) {
  return static_cast<char>(kDigits.find(high) << 4 | kDigits.find(low));
}

}  // namespace

void Etags::add(std::string_view etag) {
  if (is_hex(etag)) {
    bytes_ += kHex;
    for (size_t i = 0; i < etag.size(); i += 2) bytes_ += packed(etag[i], etag[i + 1]);
  } else {
    bytes_ += kText;
    bytes_ += etag;
  }
  ends_.push_back(bytes_.size());
}

std::string Etags::at(size_t number) const {
  if (number >= ends_.size()) return {};
  const uint64_t begin = number == 0 ? 0 : ends_[number - 1];
  const std::string_view kept = std::string_view(bytes_).substr(begin, ends_[number] - begin);
  if (kept.front() == kText) return std::string(kept.substr(1));
  std::string etag;
  for (const char byte : kept.substr(1)) {
    etag += kDigits[static_cast<unsigned char>(byte) >> 4];
    etag += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return etag;
}

}  // namespace penstock::data
