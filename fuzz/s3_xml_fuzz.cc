// Whatever a server sends, the readers of S3's XML answer with values or an error, and what they
// call fit for XML survives being written and read back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "store/s3_metadata.h"
#include "store/s3_object.h"
#include "store/s3_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::store;  // NOLINT: a small program
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_listing(text).ok());
  static_cast<void>(parse_error(text).has_value());
  static_cast<void>(parse_delete_result(text).ok());
  static_cast<void>(parse_upload_id(text).ok());
  static_cast<void>(parse_written(text).ok());
  static_cast<void>(parse_content_range(text).ok());
  static_cast<void>(parse_iso_time_ns(text));
  if (const auto time = parse_kept_time(text);
      time && parse_kept_time(format_kept_time(*time)) != time)
    std::abort();
  if (const auto mode = parse_kept_mode(text); mode && *mode > kKeptModeBits) std::abort();
  static_cast<void>(decode_listed_key(text));
  if (text.size() <= 1024 && check_key(text).ok() && is_xml_text(text)) {
    const std::vector<std::string> keys = {std::string(text)};
    std::string answer = make_delete_request(keys);
    const size_t begin = answer.find("<Key>");
    answer = "<DeleteResult><Error>" + answer.substr(begin, answer.find("</Key>") + 6 - begin) +
             "</Error></DeleteResult>";
    const auto errors = parse_delete_result(answer);
    if (!errors.ok() || errors->size() != 1 || errors->front().key != text) std::abort();
  }
  return 0;
}
