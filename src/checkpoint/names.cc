#include "checkpoint/names.h"

#include <fmt/core.h>

#include <charconv>
#include <random>

namespace penstock::checkpoint {

namespace {

constexpr std::string_view kStepPrefix = "step-";

}  // namespace

std::string step_name(uint64_t step) {
  return fmt::format("{}{:010}", kStepPrefix, step);
}

std::optional<uint64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  uint64_t step = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, step);
  if (error != std::errc() || at != end) return std::nullopt;
  if (step_name(step) != name) return std::nullopt;  // One name per step.
  return step;
}

std::string data_name(size_t index) {
  return fmt::format("data-{:05}.safetensors", index);
}

std::string rank_data_name(uint32_t rank, uint32_t retry, size_t index) {
  const std::string again = retry == 0 ? "" : fmt::format("-{}", retry);
  return fmt::format("rank-{:05}-{:05}{}.safetensors", rank, index, again);
}

bool is_checkpoint_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name != kLatestName &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string make_nonce() {
  std::random_device device;
  const uint64_t number = uint64_t{device()} << 32 | device();
  return fmt::format("{:016x}", number);
}

std::string aside_name(std::string_view name) {
  return fmt::format("{}{}", kAsidePrefix, name);
}

std::string join(std::string_view directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

}  // namespace penstock::checkpoint
