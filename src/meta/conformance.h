// The tests that every engine of metadata passes. To run them over another one, instantiate the
// suite in a test of the same binary:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, MetaConformance, ::testing::Values(kind), meta_kind_name);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result_matchers.h"
#include "penstock/meta.h"

namespace penstock::meta {

// Where a database under test keeps its data.
class MetaBed {
 public:
  virtual ~MetaBed() = default;
  // The first time with `create`; later over the same data, without. One at a time is open.
  virtual Result<std::unique_ptr<Database>> open(const std::optional<Settings>& create) = 0;
};

struct MetaKind {
  std::string name;
  std::function<std::unique_ptr<MetaBed>()> make;
};

inline std::string meta_kind_name(const ::testing::TestParamInfo<MetaKind>& info) {
  return info.param.name;
}
inline void PrintTo(const MetaKind& kind, std::ostream* out) {
  *out << kind.name;
}

// Fails with this errno.
MATCHER_P(FailsErrno, os_errno, "") {
  if (arg.ok()) {
    *result_listener << "which is no error";
    return false;
  }
  *result_listener << arg.error().to_string();
  return arg.error().os_errno == os_errno;
}

inline Settings test_settings(const std::string& name = "train") {
  Settings settings;
  settings.name = name;
  settings.store = "file:/blocks";
  for (size_t i = 0; i < settings.uuid.size(); ++i)
    settings.uuid[i] = std::byte(i * 7 + name.size());
  return settings;
}

inline constexpr Time kSecond = 1'000'000'000;

class MetaConformance : public ::testing::TestWithParam<MetaKind> {
 protected:
  void SetUp() override {
    bed_ = GetParam().make();
    open(test_settings());
  }

  void open(const std::optional<Settings>& create = std::nullopt) {
    names_.reset();
    database_.reset();
    auto opened = bed_->open(create);
    ASSERT_THAT(opened, IsOk());
    database_ = std::move(*opened);
    auto names = database_->open("train");
    ASSERT_THAT(names, IsOk());
    names_ = std::move(*names);
  }

  // Each change at its own time.
  Time now() { return now_ += kSecond; }

  Inode make(Ino parent, std::string_view name, uint32_t mode) {
    const Result<Inode> made =
        names_->create(parent, name, {.mode = mode, .uid = 7, .gid = 8}, now());
    EXPECT_THAT(made, IsOk()) << name;
    return made.ok() ? *made : Inode{};
  }
  Inode file(Ino parent, std::string_view name) { return make(parent, name, S_IFREG | 0644); }
  Inode directory(Ino parent, std::string_view name) { return make(parent, name, S_IFDIR | 0755); }
  Inode inode(Ino ino) {
    const Result<Inode> found = names_->inode(ino);
    EXPECT_THAT(found, IsOk());
    return found.ok() ? *found : Inode{};
  }
  bool has(Ino parent, std::string_view name) { return names_->lookup(parent, name).ok(); }

  Version commit() {
    const Result<Version> committed = database_->commit({.now = now()});
    EXPECT_THAT(committed, IsOk());
    return committed.ok() ? *committed : 0;
  }
  std::unique_ptr<View> at(Version version) {
    auto view = names_->at(version);
    EXPECT_THAT(view, IsOk());
    return view.ok() ? std::move(*view) : nullptr;
  }

  // A live object of 1 GiB.
  ObjectId object() {
    const ObjectId id{database_->session(), ++last_object_};
    EXPECT_THAT(database_->add_object({.id = id, .state = ObjectState::kStored, .bytes = kGiB}),
                IsOk());
    return id;
  }
  // Bytes in an object that nothing else has.
  Place place(uint64_t raw) {
    if (object_.session != database_->session()) object_ = object();
    const Place made{.object = object_,
                     .offset = next_offset_,
                     .stored = raw,
                     .raw = raw,
                     .checksum = ~next_offset_};
    next_offset_ += raw;
    return made;
  }
  void write(Ino ino, uint64_t offset, uint64_t length) {
    const Place one = place(length);
    ASSERT_THAT(names_->write(ino, offset, {&one, 1}, now()), IsOk());
  }
  std::vector<Extent> extents(View& view, Ino ino, uint64_t offset = 0,
                              uint64_t length = kFileBytesMax) {
    auto found = view.extents(ino, offset, length);
    EXPECT_THAT(found, IsOk());
    return found.ok() ? *found : std::vector<Extent>{};
  }
  // "0+10=a@0": ten bytes at 0 of the first chunk that is mentioned, from its beginning; = 0: zeros.
  std::string layout(View& view, Ino ino, uint64_t offset = 0, uint64_t length = kFileBytesMax);

  std::vector<std::string> listed(View& view, Ino directory) {
    std::vector<std::string> names;
    const auto entries = view.list(directory, 0, 1'000'000);
    EXPECT_THAT(entries, IsOk());
    if (entries.ok()) {
      for (const Entry& entry : *entries) names.push_back(entry.name);
    }
    return names;
  }
  void expect_sound() {
    const auto found = database_->check();
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(*found, ::testing::IsEmpty());
  }

  std::unique_ptr<MetaBed> bed_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Namespace> names_;

 private:
  Time now_ = 1'000 * kSecond;
  uint32_t last_object_ = 0;
  ObjectId object_;
  uint64_t next_offset_ = 0;
};

}  // namespace penstock::meta
