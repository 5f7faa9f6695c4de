#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/metrics.h"

namespace penstock::store {

enum class S3Op : uint8_t { kGet, kHead, kPut, kList, kRemove, kCopy, kUpload };
inline constexpr size_t kS3Ops = 7;
std::string_view s3_op_name(S3Op op);

// The store's metrics in Metrics::global(), looked up once.
struct S3Metrics {
  std::array<Counter*, kS3Ops> requests{};   // As sent: retries and hedges each count.
  std::array<Counter*, kS3Ops> failures{};   // Calls that ended in an error.
  std::array<Histogram*, kS3Ops> latency{};  // Of calls, retries included.
  Counter* retries = nullptr;
  Counter* slow_downs = nullptr;
  Counter* hedges = nullptr;
  Counter* hedges_won = nullptr;
  Counter* bytes_read = nullptr;
  Counter* bytes_written = nullptr;

  static const S3Metrics& get();
};

}  // namespace penstock::store
