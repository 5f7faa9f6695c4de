// Operations as values: what is recorded is what was done.
#include "volume/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result_matchers.h"

namespace penstock::volume {
namespace {

std::vector<Action> one_of_each() {
  return {CreateOp{1, "name", {.mode = S_IFREG | 0644, .uid = 7, .gid = 8, .rdev = 9, .target = "t"}},
          LinkOp{2, 1, std::string("odd\xff name", 9)},
          UnlinkOp{1, "gone", true},
          RenameOp{1, "a", 2, "b", meta::Rename::kExchange},
          ChangeOp{5, {.permissions = 0640, .size = 1ULL << 40, .mtime = -5}},
          SetXattrOp{5, "user.x", std::string("\0value", 6), meta::XattrMode::kCreate},
          RemoveXattrOp{5, "user.x"},
          ForgetOp{6},
          WriteOp{7, 1ULL << 62},
          PunchOp{7, 1, 2, true},
          AllocateOp{7, 3, 4, true},
          CopyOp{7, 1, 8, 2, 3}};
}

Operation operation_of(Action action) {
  Operation operation;
  for (size_t i = 0; i < operation.volume.size(); ++i) {
    operation.volume[i] = static_cast<std::byte>(i * 3);
  }
  operation.now = 1'234'567'890'123'456'789;
  operation.action = std::move(action);
  return operation;
}

TEST(Operation, EveryKindComesBackAsItWas) {
  ASSERT_EQ(one_of_each().size(), std::variant_size_v<Action>);
  for (const Action& action : one_of_each()) {
    const std::vector<std::byte> record = encode_operation(operation_of(action));
    const Result<Operation> decoded = decode_operation(record);
    ASSERT_THAT(decoded, IsOk());
    EXPECT_EQ(decoded->action.index(), action.index());
    EXPECT_EQ(decoded->now, operation_of(action).now);
    EXPECT_EQ(decoded->volume, operation_of(action).volume);
    EXPECT_EQ(encode_operation(*decoded), record);
  }
}

TEST(Operation, ChangesThatAreNotThereStaySo) {
  const ChangeOp change{5, {.uid = 0, .atime = 0}};
  const Result<Operation> decoded = decode_operation(encode_operation(operation_of(change)));
  const auto& changes = std::get<ChangeOp>(decoded->action).changes;
  EXPECT_FALSE(changes.permissions || changes.gid || changes.size || changes.mtime);
  EXPECT_EQ(changes.uid, 0u);
  EXPECT_EQ(changes.atime, 0);
}

TEST(Operation, WhatIsCutOffOrTooLongIsNone) {
  for (const Action& action : one_of_each()) {
    std::vector<std::byte> record = encode_operation(operation_of(action));
    for (size_t length = 0; length < record.size(); ++length) {
      EXPECT_THAT(decode_operation(std::span(record).first(length)),
                  FailsWith(ErrorCode::kCorrupt));
    }
    record.push_back(std::byte{0});
    EXPECT_THAT(decode_operation(record), FailsWith(ErrorCode::kCorrupt));
  }
}

TEST(Operation, WhatANewerVersionWroteIsRefused) {
  std::vector<std::byte> record = encode_operation(operation_of(ForgetOp{1}));
  record[0] = std::byte{2};
  EXPECT_THAT(decode_operation(record), FailsWith(ErrorCode::kUnsupported));
  record[0] = std::byte{1};
  record[1] = std::byte{200};
  EXPECT_THAT(decode_operation(record), FailsWith(ErrorCode::kUnsupported));
}

}  // namespace
}  // namespace penstock::volume
