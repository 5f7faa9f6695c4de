#include "tune/system_text.h"

#include <algorithm>
#include <charconv>

#include "penstock/units.h"
#include "tune/text.h"

namespace penstock::tune::doctor {

namespace {

uint64_t little_endian(std::span<const std::byte> page, size_t offset, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(page[offset + i]) << (8 * i);
  return value;
}

// "nvme0n1p1[2](F)": "nvme0n1p1".
std::string member_name(std::string_view word) {
  return std::string(word.substr(0, word.find('[')));
}

// The "[4/3]" of a redundant array's second line.
void parse_drive_counts(std::string_view line, MdArray& array) {
  for (const std::string_view word : split_words(line)) {
    const size_t slash = word.find('/');
    if (word.size() < 5 || word.front() != '[' || word.back() != ']' ||
        slash == std::string_view::npos)
      continue;
    const auto wanted = parse_u64(word.substr(1, slash - 1));
    const auto present = parse_u64(word.substr(slash + 1, word.size() - slash - 2));
    if (!wanted || !present) continue;
    array.drives_wanted = *wanted;
    array.drives_present = *present;
  }
}

// "md0 : active (auto-read-only) raid0 nvme0n1[0] nvme1n1[1]"
std::optional<MdArray> parse_md_line(std::string_view line) {
  const std::vector<std::string_view> words = split_words(line);
  if (words.size() < 3 || words[1] != ":" || words[0].substr(0, 2) != "md") return std::nullopt;
  MdArray array;
  array.name = words[0];
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i].find('[') != std::string_view::npos) {
      array.members.push_back(member_name(words[i]));
    } else if (words[i][0] != '(') {
      array.level = words[i];
    }
  }
  return array;
}

}  // namespace

Meminfo parse_meminfo(std::string_view text) {
  Meminfo values;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() != 3 || words[2] != "kB" || words[0].back() != ':') continue;
    const auto kib = parse_u64(words[1]);
    if (!kib || *kib > UINT64_MAX / kKiB) continue;
    values.emplace(words[0].substr(0, words[0].size() - 1), *kib * kKiB);
  }
  return values;
}

std::vector<MdArray> parse_mdstat(std::string_view text) {
  std::vector<MdArray> arrays;
  for (const std::string_view line : split(text, '\n')) {
    if (auto array = parse_md_line(line)) {
      arrays.push_back(std::move(*array));
    } else if (!arrays.empty()) {
      parse_drive_counts(line, arrays.back());
    }
  }
  return arrays;
}

std::string parse_scheduler(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return "";
  return std::string(text.substr(open + 1, close - open - 1));
}

std::optional<double> parse_link_speed_gt(std::string_view text) {
  const std::vector<std::string_view> words = split_words(text);
  if (words.size() < 2 || words[1] != "GT/s") return std::nullopt;
  double speed = 0;
  const char* end = words[0].data() + words[0].size();
  const auto parsed = std::from_chars(words[0].data(), end, speed, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !(speed > 0 && speed < 1e6))
    return std::nullopt;
  return speed;
}

double link_bytes_per_second(double speed_gt, uint64_t lanes) {
  // Up to 5 GT/s ten bits carry eight, from 8 GT/s on 130 carry 128.
  const double efficiency = speed_gt <= 5 ? 0.8 : 128.0 / 130.0;
  return speed_gt * 1e9 / 8 * efficiency * static_cast<double>(lanes);
}

std::optional<Striping> parse_striping(std::string_view text) {
  std::optional<Striping> striping;
  const std::vector<std::string_view> words = split_words(text);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const auto number = parse_i64(words[i + 1]);
    if (!number) continue;
    if (words[i].ends_with("stripe_count:")) {
      // 2^32 - 1 is how some versions print -1, "all"; 0 is "the file system's default", one.
      const bool all = *number >= UINT32_MAX || *number < 0;
      striping = Striping{all ? -1 : std::max<int64_t>(*number, 1), 0};
    } else if (words[i].ends_with("stripe_size:") && striping && *number >= 0) {
      striping->size_bytes = static_cast<uint64_t>(*number);
    }
  }
  return striping;
}

std::optional<NvmeHealth> parse_nvme_health(std::span<const std::byte> log_page) {
  if (log_page.size() < 512) return std::nullopt;
  NvmeHealth health;
  health.critical_warning = little_endian(log_page, 0, 1);
  health.spare_percent = little_endian(log_page, 3, 1);
  health.spare_threshold_percent = little_endian(log_page, 4, 1);
  health.percentage_used = little_endian(log_page, 5, 1);
  // A data unit is 1,000 sectors of 512 bytes. The counter has 16 bytes; 8 hold any real drive.
  const uint64_t units = little_endian(log_page, 48, 8);
  health.written_bytes = units > UINT64_MAX / 512'000 ? UINT64_MAX : units * 512'000;
  return health;
}

std::optional<CgroupPath> parse_cgroup(std::string_view text, std::string_view controller) {
  std::optional<CgroupPath> found;
  for (const std::string_view line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    const std::string path(trim(line.substr(second + 1)));
    const std::vector<std::string_view> list = split(names, ',');
    if (std::find(list.begin(), list.end(), controller) != list.end())
      return CgroupPath{path, false};
    if (names.empty()) found = CgroupPath{path, true};
  }
  return found;
}

std::optional<KernelVersion> parse_kernel_version(std::string_view text) {
  const std::vector<std::string_view> parts = split(trim(text), '.');
  if (parts.size() < 2) return std::nullopt;
  const size_t digits = std::min(parts[1].find_first_not_of("0123456789"), parts[1].size());
  const auto major = parse_u64(parts[0]);
  const auto minor = parse_u64(parts[1].substr(0, digits));
  if (!major || !minor) return std::nullopt;
  return KernelVersion{*major, *minor};
}

}  // namespace penstock::tune::doctor
