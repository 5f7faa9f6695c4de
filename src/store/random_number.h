#pragma once

#include <cstdint>
#include <random>

namespace penstock::store {

// For names that nobody else has.
inline uint64_t random_number() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace penstock::store
