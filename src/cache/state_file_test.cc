#include "cache/state_file.h"

#include "cache/testing.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

State example() {
  State state;
  state.evictor = "17-00000000000000aa";
  state.counter = 3;
  state.known = true;
  state.used = 1000;
  state.limit = 2000;
  state.entries = 5;
  state.open_bytes = 900;
  state.invited_bytes = 90;
  state.members = 2;
  state.totals = {.hit_bytes = 11, .miss_bytes = 12, .since_s = 1'700'000'000};
  state.invited = {test_id(1), test_id(2)};
  state.rows = {{.member = member_hash("18-00000000000000bb"),
                 .ceiling = 7,
                 .changed = 2,
                 .ceiling_max = 8,
                 .consumed = {.file = 2, .offset = 64}}};
  return state;
}

Result<State> parse(const std::string& bytes) {
  return parse_state(std::as_bytes(std::span(bytes)));
}

TEST(StateFile, RoundTrips) {
  EXPECT_EQ(*parse(encode_state({})), State{});
  State state = example();
  EXPECT_EQ(*parse(encode_state(state)), state);
  state.clean = true;
  state.known = false;
  state.evictor = std::string(64, 'x');
  EXPECT_EQ(*parse(encode_state(state)), state);
  EXPECT_EQ(state.row_of(member_hash("18-00000000000000bb")), state.rows.data());
  EXPECT_EQ(state.row_of(member_hash("18-00000000000000bc")), nullptr);
}

// Whoever planted it: it is not followed, and the next state takes its place.
TEST(StateFile, ALinkIsTakenForDamageAndReplaced) {
  io::MemoryFileSystem fs;
  const std::string good = encode_state(example());
  ASSERT_THAT(replace_file(fs, "/t", "/victim", good), IsOk());
  ASSERT_THAT(fs.make_symlink("/victim", "/state"), IsOk());
  EXPECT_THAT(read_state(fs, "/state"), FailsWith(ErrorCode::kCorrupt));
  ASSERT_THAT(replace_file(fs, "/t", "/state", encode_state({})), IsOk());
  EXPECT_EQ(*read_state(fs, "/state"), State{});
  EXPECT_EQ(*read_state(fs, "/victim"), example());
}

TEST(StateFile, DamageIsNoticed) {
  const std::string good = encode_state(example());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(parse(good.substr(0, length)), FailsWith(ErrorCode::kCorrupt)) << length;
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(parse(bad), FailsWith(ErrorCode::kCorrupt)) << bit;
  }
  EXPECT_THAT(parse(good + "x"), FailsWith(ErrorCode::kCorrupt));
}

TEST(StateFile, IsReplacedAsAWhole) {
  const std::string path = "/state";
  for (uint64_t n = 1;; ++n) {
    auto disk = std::make_unique<io::MemoryFileSystem>();
    ASSERT_THAT(replace_file(*disk, "/tmp", path, encode_state(example())), IsOk());
    io::FaultyFileSystem fs({.fail_at = n, .error = ENOSPC}, std::move(disk));
    State next = example();
    next.counter = 4;
    const bool replaced = replace_file(fs, "/tmp", path, encode_state(next)).ok();
    EXPECT_EQ(read_state(fs.disk(), path)->counter, replaced ? 4 : 3) << n;
    EXPECT_THAT(fs.disk().stat("/tmp"), FailsWith(ErrorCode::kNotFound)) << n;
    if (!fs.fault_hit()) break;
    EXPECT_THAT(replace_file(fs, "/tmp", path, encode_state(next)), IsOk()) << n;
  }
}

}  // namespace

}  // namespace penstock::cache
