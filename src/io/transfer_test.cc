// The pieces that a transfer is cut into, against a device that is a string and insists on
// alignment.
#include "io/transfer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

namespace penstock::io {
namespace {

constexpr int kDirectFd = 3;
constexpr int kBufferedFd = 4;

// Carries out pieces on a string; refuses direct ones that are not aligned, as the kernel does.
class FakeDevice {
 public:
  explicit FakeDevice(std::string bytes) : bytes_(std::move(bytes)) {}

  int run(const RawOp& op, const Alignment& alignment) {
    if (op.fd == kDirectFd) {
      EXPECT_EQ(op.offset % alignment.offset_bytes, 0u);
      EXPECT_EQ(op.size % alignment.offset_bytes, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(op.data) % alignment.memory_bytes, 0u);
    }
    if (interrupt_ && random_() % 4 == 0) return random_() % 2 == 0 ? -EINTR : -EAGAIN;
    size_t size = op.size;
    // Short transfers end on a block boundary, unless the file ends there.
    if (short_ && random_() % 2 == 0)
      size = std::max<size_t>(size / 2 / alignment.offset_bytes, 1) * alignment.offset_bytes;
    size = std::min<size_t>(size, op.size);
    if (op.kind == RawOp::Kind::kWrite) {
      if (bytes_.size() < op.offset + size) bytes_.resize(op.offset + size);
      std::memcpy(bytes_.data() + op.offset, op.data, size);
      return static_cast<int>(size);
    }
    if (op.offset >= bytes_.size()) return 0;
    size = std::min(size, bytes_.size() - op.offset);
    std::memcpy(op.data, bytes_.data() + op.offset, size);
    return static_cast<int>(size);
  }

  std::string bytes_;
  bool interrupt_ = false;
  bool short_ = false;
  std::mt19937 random_{7};
};

TransferTarget direct_target(uint32_t memory_bytes) {
  return {.fd = kDirectFd,
          .buffered_fd = kBufferedFd,
          .alignment = {memory_bytes, 4096},
          .direct = true};
}

TransferTarget buffered_target() {
  TransferTarget target;
  target.fd = kBufferedFd;
  return target;
}

int64_t run(TransferPlan& plan, FakeDevice& device, const Alignment& alignment) {
  alignas(4096) static std::byte bounce[kBounceBytes];
  plan.set_bounce(bounce);
  while (!plan.finished()) {
    RawOp op;
    plan.next(op);
    plan.absorb(device.run(op, alignment));
  }
  return plan.outcome();
}

std::string random_bytes(size_t size, std::mt19937& random) {
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class AnyTransfer : public testing::TestWithParam<uint32_t> {};

TEST_P(AnyTransfer, MatchesTheModelAtEveryOffsetSizeAndAddress) {
  std::mt19937 random(GetParam());
  const TransferTarget target = direct_target(GetParam());
  FakeDevice device(random_bytes(3 * kMiB + 777, random));
  device.interrupt_ = true;
  device.short_ = true;
  std::string model = device.bytes_;
  std::vector<std::byte> memory(4 * kMiB + 4096);
  for (int i = 0; i < 400; ++i) {
    const uint64_t limit = i % 10 == 0 ? 3 * kMiB : 40000;
    const size_t size = random() % limit;
    const uint64_t offset =
        (random() % 3 == 0 ? random() % 800 * 4096 : random() % (3 * kMiB + 9000));
    std::byte* data = memory.data() + (random() % 2 == 0 ? 0 : random() % 4096);
    if (random() % 2 == 0) {
      TransferPlan plan(target, RawOp::Kind::kRead, offset, std::span(data, size));
      const int64_t got = run(plan, device, target.alignment);
      const size_t expected = offset >= model.size() ? 0 : std::min(size, model.size() - offset);
      ASSERT_EQ(got, static_cast<int64_t>(expected)) << offset << "+" << size;
      ASSERT_EQ(std::memcmp(data, model.data() + std::min(offset, model.size()), expected), 0)
          << offset << "+" << size;
    } else {
      const std::string bytes = random_bytes(size, random);
      std::memcpy(data, bytes.data(), size);
      TransferPlan plan(target, RawOp::Kind::kWrite, offset, std::span(data, size));
      ASSERT_EQ(run(plan, device, target.alignment), static_cast<int64_t>(size));
      if (size > 0 && model.size() < offset + size) model.resize(offset + size);
      std::memcpy(model.data() + offset, bytes.data(), size);
      ASSERT_EQ(device.bytes_ == model, true) << offset << "+" << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MemoryAlignment, AnyTransfer, testing::Values(1u, 4u, 512u, 4096u));

TEST(Transfer, AlignedGoesStraightInOnePiece) {
  alignas(4096) static std::byte memory[8192];
  TransferPlan plan(direct_target(512), RawOp::Kind::kRead, 4096,
                    MemorySlice(memory, sizeof(memory), 9));
  EXPECT_FALSE(plan.needs_bounce());
  RawOp op;
  plan.next(op);
  EXPECT_EQ(op.data, memory);
  EXPECT_EQ(op.size, 8192u);
  EXPECT_EQ(op.region, 9u);
  plan.absorb(8192);
  EXPECT_TRUE(plan.finished());
}

TEST(Transfer, ASmallUnalignedReadIsOneWidenedCall) {
  std::vector<std::byte> memory(100000);
  alignas(4096) static std::byte bounce[kBounceBytes];
  TransferPlan plan(direct_target(512), RawOp::Kind::kRead, 5000, std::span(memory));
  plan.set_bounce(bounce);
  RawOp op;
  plan.next(op);
  EXPECT_EQ(op.offset, 4096u);
  EXPECT_EQ(op.size, 102400u);
  plan.absorb(102400);
  EXPECT_TRUE(plan.finished());
  EXPECT_EQ(plan.outcome(), 100000);
}

TEST(Transfer, PartialBlocksOfWritesNeverShareADirectPiece) {
  alignas(4096) static std::byte memory[20000];
  TransferPlan plan(direct_target(1), RawOp::Kind::kWrite, 4000,
                    MemorySlice(memory, sizeof(memory), 0));
  std::vector<std::tuple<int, uint64_t, uint32_t>> pieces;
  while (!plan.finished()) {
    RawOp op;
    plan.next(op);
    pieces.emplace_back(op.fd, op.offset, op.size);
    plan.absorb(static_cast<int>(op.size));
  }
  const std::vector<std::tuple<int, uint64_t, uint32_t>> expected = {
      {kBufferedFd, 4000, 96}, {kDirectFd, 4096, 16384}, {kBufferedFd, 20480, 3520}};
  EXPECT_EQ(pieces, expected);
}

TEST(Transfer, ErrorsEndIt) {
  std::byte memory[100];
  for (const int os_errno : {EIO, ENOSPC, EFAULT}) {
    TransferPlan plan(buffered_target(), RawOp::Kind::kWrite, 0,
                      MemorySlice(memory, sizeof(memory), 0));
    RawOp op;
    plan.next(op);
    plan.absorb(40);
    ASSERT_FALSE(plan.finished());
    plan.next(op);
    EXPECT_EQ(op.offset, 40u);
    plan.absorb(-os_errno);
    EXPECT_TRUE(plan.finished());
    EXPECT_EQ(plan.outcome(), -os_errno);
  }
}

TEST(Transfer, AWriteThatWritesNothingFailsInsteadOfLooping) {
  std::byte memory[100];
  TransferPlan plan(buffered_target(), RawOp::Kind::kWrite, 0,
                    MemorySlice(memory, sizeof(memory), 0));
  RawOp op;
  plan.next(op);
  plan.absorb(0);
  EXPECT_EQ(plan.outcome(), -EIO);
}

TEST(Transfer, EndlessInterruptionIsGivenUp) {
  std::byte memory[100];
  TransferPlan plan(buffered_target(), RawOp::Kind::kRead, 0,
                    MemorySlice(memory, sizeof(memory), 0));
  int calls = 0;
  while (!plan.finished() && calls < 100000) {
    RawOp op;
    plan.next(op);
    plan.absorb(-EAGAIN);
    ++calls;
  }
  EXPECT_EQ(plan.outcome(), -EAGAIN);
}

}  // namespace
}  // namespace penstock::io
