#pragma once

#include <future>
#include <memory>
#include <utility>

#include "penstock/result.h"

namespace penstock::store {

// Starts what answers later, and waits for the answer.
template <typename T, typename Start>
Result<T> wait_for(Start start) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answer = promise->get_future();
  start([promise](Result<T> result) { promise->set_value(std::move(result)); });
  return answer.get();
}

}  // namespace penstock::store
