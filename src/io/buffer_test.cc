#include "penstock/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "io/cuda_driver.h"

namespace penstock::io {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<BufferProvider> provider(uint64_t budget, MemoryRegistrar* registrar = nullptr) {
  return *BufferProvider::create({.budget_bytes = budget, .registrar = registrar});
}

TEST(BufferProvider, GivesPageAlignedMemoryOfTheSizeAskedFor) {
  const auto buffers = provider(64 * kMiB);
  for (const size_t size :
       {size_t{1}, size_t{4096}, size_t{5000}, size_t{kMiB}, size_t{kMiB + 1}, size_t{5 * kMiB}}) {
    const Buffer buffer = *buffers->take(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u);
    std::memset(buffer.data(), 1, size);
  }
}

TEST(BufferProvider, BuffersInUseDoNotOverlap) {
  const auto buffers = provider(32 * kMiB);
  std::vector<Buffer> held;
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) held.push_back(*buffers->take(1 + random() % (400 * kKiB)));
  std::set<std::pair<std::byte*, std::byte*>> ranges;
  for (const Buffer& buffer : held) ranges.emplace(buffer.data(), buffer.data() + buffer.size());
  std::byte* end = nullptr;
  for (const auto& [first, last] : ranges) {
    EXPECT_GE(first, end);
    end = last;
  }
}

TEST(BufferProvider, TheBudgetIsACeiling) {
  const auto buffers = provider(8 * kMiB);
  std::vector<Buffer> held;
  while (true) {
    Result<Buffer> buffer = buffers->try_take(700 * kKiB);
    if (!buffer.ok()) {
      EXPECT_EQ(buffer.error().code, ErrorCode::kBusy);
      EXPECT_TRUE(buffer.error().retryable);
      break;
    }
    held.push_back(std::move(*buffer));
  }
  EXPECT_EQ(held.size(), 8u);  // Rounded to 1 MiB each.
  EXPECT_LE(buffers->stats().held_bytes, 8 * kMiB);
}

TEST(BufferProvider, MemoryOfOneSizeIsGivenUpForAnother) {
  const auto buffers = provider(8 * kMiB);
  for (int round = 0; round < 3; ++round) {
    {
      const Buffer large = *buffers->try_take(8 * kMiB);
    }
    {
      std::vector<Buffer> small;
      for (int i = 0; i < 512; ++i) small.push_back(*buffers->try_take(4096));
    }
    EXPECT_LE(buffers->stats().peak_held_bytes, 8 * kMiB);
  }
}

TEST(BufferProvider, SmallSizesShareMemory) {
  const auto buffers = provider(2 * kMiB);
  std::vector<Buffer> held;
  for (size_t size = 4096; size <= 512 * kKiB; size *= 2) held.push_back(*buffers->try_take(size));
  EXPECT_TRUE(buffers->try_take(kMiB).ok());
  EXPECT_LE(buffers->stats().held_bytes, 2 * kMiB);
}

// Random takes and returns: what is free must always come together again.
TEST(BufferProvider, FreedBlocksMergeAgain) {
  const auto buffers = provider(2 * kMiB);
  std::mt19937 random(3);
  std::vector<Buffer> held;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      Result<Buffer> one = buffers->try_take(1 + random() % (200 * kKiB));
      if (one.ok()) held.push_back(std::move(*one));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
  }
  held.clear();
  EXPECT_EQ(buffers->stats().in_use_bytes, 0u);
  const Buffer half = *buffers->try_take(kMiB);
  const Buffer other = *buffers->try_take(kMiB);
  EXPECT_NE(half.data(), other.data());
}

TEST(BufferProvider, FreedMemoryIsUsedAgain) {
  const auto buffers = provider(64 * kMiB);
  std::byte* first = buffers->take(3 * kMiB)->data();
  EXPECT_EQ(buffers->take(3 * kMiB)->data(), first);
}

TEST(BufferProvider, WhatCanNeverFitIsRefusedAtOnce) {
  const auto buffers = provider(8 * kMiB);
  EXPECT_EQ(buffers->take(9 * kMiB).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(buffers->take(0).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(buffers->take(SIZE_MAX).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(BufferProvider::create({.budget_bytes = 1}).error().code, ErrorCode::kInvalid);
}

TEST(BufferProvider, TakeWaitsForMemoryAndTimesOut) {
  const auto buffers = provider(2 * kMiB);
  Buffer all = *buffers->take(2 * kMiB);
  EXPECT_EQ(buffers->take(4096, deadline_in(5ms)).error().code, ErrorCode::kTimeout);
  std::thread freer([&] {
    std::this_thread::sleep_for(10ms);
    all = Buffer();
  });
  EXPECT_TRUE(buffers->take(4096).ok());
  freer.join();
}

TEST(BufferProvider, StopEndsTheWait) {
  const auto buffers = provider(2 * kMiB);
  const Buffer all = *buffers->take(2 * kMiB);
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    stop.request_stop();
  });
  EXPECT_EQ(buffers->take(4096, kNoDeadline, stop.get_token()).error().code, ErrorCode::kCancelled);
  stopper.join();
}

TEST(BufferProvider, ALargeRequestIsNotStarvedBySmallOnes) {
  const auto buffers = provider(8 * kMiB);
  Buffer one = *buffers->take(4 * kMiB);
  std::atomic<bool> served = false;
  std::thread large([&] {
    const Buffer all = *buffers->take(8 * kMiB);
    served = true;
  });
  // Once the large one waits, a small one that would fit has to wait behind it.
  while (buffers->try_take(4096).ok()) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(served);
  one = Buffer();
  large.join();
  EXPECT_TRUE(served);
}

TEST(BufferProvider, BuffersOutliveTheHandleOfTheirProvider) {
  auto buffers = provider(8 * kMiB);
  const Buffer buffer = *buffers->take(kMiB);
  buffers.reset();
  std::memset(buffer.data(), 1, buffer.size());
}

TEST(BufferProvider, ManyThreadsStayWithinTheBudget) {
  const auto buffers = provider(16 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 300; ++i) {
        const size_t size = 1 + random() % (random() % 8 == 0 ? 6 * kMiB : 64 * kKiB);
        const Result<Buffer> buffer = buffers->take(size);
        ASSERT_TRUE(buffer.ok());
        buffer->data()[0] = std::byte{1};
        buffer->data()[size - 1] = std::byte{2};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(buffers->stats().peak_held_bytes, 16 * kMiB);
  EXPECT_EQ(buffers->stats().in_use_bytes, 0u);
}

class RecordingRegistrar : public MemoryRegistrar {
 public:
  uint32_t add_region(std::span<std::byte> memory) override {
    live[++last_] = memory;
    return last_;
  }
  void remove_region(uint32_t region) override { EXPECT_EQ(live.erase(region), 1u); }
  std::map<uint32_t, std::span<std::byte>> live;

 private:
  uint32_t last_ = 0;
};

TEST(BufferProvider, EverySliceLiesInTheRegionItNames) {
  RecordingRegistrar registrar;
  {
    const auto buffers = provider(16 * kMiB, &registrar);
    for (const size_t size : {size_t{100}, size_t{kMiB}, size_t{3 * kMiB}}) {
      const Buffer buffer = *buffers->take(size);
      const MemorySlice slice = buffer.slice(10, size - 20);
      const std::span<std::byte> region = registrar.live.at(slice.region);
      EXPECT_GE(slice.data, region.data());
      EXPECT_LE(slice.data + slice.size, region.data() + region.size());
    }
    EXPECT_TRUE(buffers->stats().registered);
  }
  EXPECT_TRUE(registrar.live.empty());
}

// Says that memory is being made, and takes its time.
class SlowRegistrar final : public MemoryRegistrar {
 public:
  uint32_t add_region(std::span<std::byte>) override {
    begun.set_value();
    std::this_thread::sleep_for(20ms);
    return 1;
  }
  void remove_region(uint32_t) override {}
  std::promise<void> begun;
};

TEST(BufferProvider, MemoryThatSomebodyIsMakingIsWaitedForAndNotTakenForFull) {
  SlowRegistrar registrar;
  const auto buffers = provider(2 * kMiB, &registrar);
  Result<Buffer> first = make_error(ErrorCode::kInvalid, "not taken yet");
  std::thread maker([&] { first = buffers->try_take(512 * kKiB); });
  registrar.begun.get_future().wait();
  const Result<Buffer> second = buffers->try_take(512 * kKiB);
  const Result<Buffer> third = buffers->take(kMiB, deadline_in(10s));
  maker.join();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(second.ok());
  EXPECT_TRUE(third.ok());
  EXPECT_FALSE(buffers->try_take(4096).ok());
}

TEST(BufferProvider, PinnedMemoryNeedsADriverOnlyWhenInsistedOn) {
  const bool gpu = CudaDriver::get().ok();
  const auto if_gpu = *BufferProvider::create({.pin = PinPolicy::kIfGpu});
  EXPECT_EQ(if_gpu->take(kMiB)->pinned(), gpu);
  const auto always = BufferProvider::create({.pin = PinPolicy::kAlways});
  EXPECT_EQ(always.ok(), gpu);
  if (!gpu) {
    EXPECT_EQ(always.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(always.error().detail, testing::HasSubstr("CUDA"));
  }
}

}  // namespace
}  // namespace penstock::io
