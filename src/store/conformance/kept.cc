// What a put keeps of the file it is a copy of: its time and its mode.
#include "store/conformance.h"

namespace penstock::store {

namespace {

constexpr int64_t kTime = 1'500'000'000'123'456'789;

PutOptions keeping(std::optional<int64_t> mtime_ns, std::optional<uint32_t> mode) {
  PutOptions options;
  options.mtime_ns = mtime_ns;
  options.mode = mode;
  return options;
}

Result<ObjectInfo> upload(ObjectStore& store, const std::string& key, const Bytes& bytes,
                          PutOptions options) {
  const std::unique_ptr<Upload> upload = PENSTOCK_TRY(store.start_upload(key, std::move(options)));
  PENSTOCK_TRY(upload->write(bytes));
  return upload->finish();
}

void expect_kept(const ObjectInfo& info, std::optional<int64_t> mtime_ns,
                 std::optional<uint32_t> mode) {
  EXPECT_EQ(info.kept_mtime_ns, mtime_ns) << info.key;
  EXPECT_EQ(info.kept_mode, mode) << info.key;
}

// As head, get with and without bytes, and the listing tell it.
void expect_kept_everywhere(ObjectStore& store, const std::string& key, Attributes kind,
                            std::optional<int64_t> mtime_ns, std::optional<uint32_t> mode) {
  Bytes into(5);
  const Result<ObjectInfo> head = store.head(key);
  const Result<GetResult> got = store.get(key, 0, into);
  const Result<GetResult> nothing = store.get(key, 0, {});
  ASSERT_THAT(head, IsOk());
  ASSERT_THAT(got, IsOk());
  ASSERT_THAT(nothing, IsOk());
  for (const ObjectInfo& info : {*head, got->info, nothing->info}) {
    expect_kept(info, mtime_ns, mode);
  }
  ListOptions options;
  options.prefix = key;
  const Result<ListPage> page = store.list(options);
  ASSERT_THAT(page, IsOk());
  ASSERT_FALSE(page->objects.empty());
  const bool listed = kind == Attributes::kOfFile;
  expect_kept(page->objects[0], listed ? mtime_ns : std::nullopt, listed ? mode : std::nullopt);
  if (listed) {
    EXPECT_EQ(head->mtime_ns, mtime_ns);
    EXPECT_EQ(page->objects[0].mtime_ns, mtime_ns);
  }
}

}  // namespace

TEST_P(StoreConformance, KeepsNoTimeAndModeWhereItCannot) {
  if (GetParam().attributes != Attributes::kNone) GTEST_SKIP() << "it can";
  ASSERT_THAT(store_->put("put", make_bytes(10, 1), keeping(kTime, 0640)), IsOk());
  ASSERT_THAT(upload(*store_, "upload", make_bytes(10, 1), keeping(kTime, 0640)), IsOk());
  for (const std::string key : {"put", "upload"}) {
    expect_kept_everywhere(*store_, key, Attributes::kNone, std::nullopt, std::nullopt);
    EXPECT_NE(store_->head(key)->mtime_ns, kTime);
    expect_object(key, make_bytes(10, 1));
  }
}

TEST_P(StoreConformance, KeepsTimeAndMode) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  const Bytes bytes = make_bytes(1000, 1);
  for (const bool by_upload : {false, true}) {
    SCOPED_TRACE(by_upload ? "upload" : "put");
    const PutOptions options = keeping(kTime, 0640);
    const Result<ObjectInfo> info =
        by_upload ? upload(*store_, "a/k", bytes, options) : store_->put("a/k", bytes, options);
    ASSERT_THAT(info, IsOk());
    expect_kept(*info, kTime, 0640);
    expect_kept_everywhere(*store_, "a/k", GetParam().attributes, kTime, 0640);
    EXPECT_EQ(info->etag, store_->head("a/k")->etag);
    expect_object("a/k", bytes);
    ASSERT_THAT(store_->flush(), IsOk());
    ASSERT_THAT(store_->remove("a/k"), IsOk());
  }
}

TEST_P(StoreConformance, KeepsOddTimesAndModes) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  struct Case {
    int64_t mtime_ns;
    uint32_t mode;
    uint32_t kept_mode;
  };
  for (const Case& odd :
       {Case{0, 0777, 0777}, Case{1, 0444, 0444}, Case{-1, 0600, 0600},
        Case{-1'500'000'000, 0100644, 0644}, Case{2'000'000'000'000'000'000, 0, 0},
        Case{1'000'000'000, 07755, 0755}, Case{1'700'000'000'500'000'000, 02, 02}}) {
    SCOPED_TRACE(testing::Message() << odd.mtime_ns << " " << std::oct << odd.mode);
    const Result<ObjectInfo> put =
        store_->put("k", make_bytes(10, 1), keeping(odd.mtime_ns, odd.mode));
    ASSERT_THAT(put, IsOk());
    expect_kept(*put, odd.mtime_ns, odd.kept_mode);
    expect_kept(*store_->head("k"), odd.mtime_ns, odd.kept_mode);
  }
}

TEST_P(StoreConformance, KeepsOneWithoutTheOther) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  const bool of_file = GetParam().attributes == Attributes::kOfFile;
  ASSERT_THAT(store_->put("time", make_bytes(10, 1), keeping(kTime, std::nullopt)), IsOk());
  ASSERT_THAT(store_->put("mode", make_bytes(10, 1), keeping(std::nullopt, 0604)), IsOk());
  put("none", make_bytes(10, 1));
  EXPECT_EQ(store_->head("time")->kept_mtime_ns, kTime);
  EXPECT_EQ(store_->head("mode")->kept_mode, 0604u);
  EXPECT_EQ(store_->head("time")->kept_mode.has_value(), of_file);
  EXPECT_EQ(store_->head("mode")->kept_mtime_ns.has_value(), of_file);
  EXPECT_EQ(store_->head("none")->kept_mode.has_value(), of_file);
  EXPECT_EQ(store_->head("none")->kept_mtime_ns.has_value(), of_file);
  EXPECT_NE(store_->head("mode")->mtime_ns, kTime);
}

TEST_P(StoreConformance, PutsReplaceWhatWasKept) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  ASSERT_THAT(store_->put("k", make_bytes(10, 1), keeping(kTime, 0604)), IsOk());
  put("k", make_bytes(10, 2));
  EXPECT_NE(store_->head("k")->kept_mtime_ns, kTime);
  EXPECT_NE(store_->head("k")->kept_mode, 0604u);
}

TEST_P(StoreConformance, KeptWithIfAbsentToo) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  PutOptions options = keeping(kTime, 0640);
  options.if_absent = true;
  ASSERT_THAT(store_->put("k", make_bytes(10, 1), options), IsOk());
  options.mtime_ns = kTime + 1;
  EXPECT_THAT(store_->put("k", make_bytes(10, 2), options), FailsWith(ErrorCode::kExists));
  expect_kept(*store_->head("k"), kTime, 0640);
}

TEST_P(StoreConformance, CopiesKeepTimeAndMode) {
  if (GetParam().attributes == Attributes::kNone) GTEST_SKIP() << "it cannot";
  const Bytes bytes = make_bytes(1000, 1);
  ASSERT_THAT(store_->put("from", bytes, keeping(kTime, 0640)), IsOk());
  const Result<ObjectInfo> copied = store_->copy("from", "to");
  ASSERT_THAT(copied, IsOk());
  expect_kept(*copied, kTime, 0640);
  expect_kept(*store_->head("to"), kTime, 0640);
  EXPECT_EQ(copied->etag, store_->head("to")->etag);
  expect_object("to", bytes);
}

}  // namespace penstock::store
