// Thousands of random operations, compared with a model: what is there now, and what was there in
// every version that is kept.
#include <fmt/core.h>

#include <functional>
#include <random>

#include "base/sanitized.h"
#include "io/memory_file_system.h"
#include "meta/conformance.h"
#include "meta/model.h"

namespace penstock::meta {
namespace {

constexpr uint64_t kFileBytes = 400;  // Files are about so large.

template <typename T>
int errno_of(const Result<T>& result) {
  if (result.ok()) return 0;
  EXPECT_NE(result.error().os_errno, 0) << result.error().to_string();
  return result.error().os_errno;
}

// Content as the model has it.
std::vector<uint64_t> bytes_of(View& view, Ino ino) {
  std::vector<uint64_t> bytes;
  const auto extents = view.extents(ino, 0, kFileBytesMax);
  EXPECT_THAT(extents, IsOk());
  for (const Extent& extent : *extents) {
    EXPECT_GE(extent.offset, bytes.size()) << "extents overlap";
    bytes.resize(extent.offset + extent.length, Model::kHole);
    for (uint64_t i = 0; i < extent.length; ++i) {
      bytes[extent.offset + i] =
          extent.chunk == kZeros ? Model::kZero
                                 : Model::byte_of(extent.place.checksum, extent.chunk_offset + i);
    }
  }
  return bytes;
}

void expect_inode(const Inode& seen, const ModelNode& node) {
  const Inode& expected = node.inode;
  EXPECT_EQ(seen.mode, expected.mode);
  EXPECT_EQ(seen.uid, expected.uid);
  EXPECT_EQ(seen.gid, expected.gid);
  EXPECT_EQ(seen.links, expected.links);
  EXPECT_EQ(seen.size, expected.size);
  EXPECT_EQ(seen.allocated, expected.allocated);
  EXPECT_EQ(seen.mtime, expected.mtime);
  EXPECT_EQ(seen.ctime, expected.ctime);
}

void expect_directory(View& view, const ModelNode& node) {
  std::vector<std::pair<std::string, Ino>> entries;
  for (uint64_t cookie = 0;;) {
    const auto page = view.list(node.inode.ino, cookie, 5);
    ASSERT_THAT(page, IsOk());
    if (page->empty()) break;
    for (const Entry& entry : *page) entries.emplace_back(entry.name, entry.ino);
    cookie = page->back().cookie;
  }
  EXPECT_EQ(entries, node.entries);
  if (node.inode.links != 0) {
    EXPECT_EQ(view.lookup(node.inode.ino, "..")->ino, node.parent);
  }
  for (const auto& [name, ino] : entries) EXPECT_EQ(view.lookup(node.inode.ino, name)->ino, ino);
}

void expect_node(View& view, const ModelNode& node) {
  const Ino ino = node.inode.ino;
  const Result<Inode> seen = view.inode(ino);
  ASSERT_THAT(seen, IsOk());
  expect_inode(*seen, node);
  if (seen->is_directory()) expect_directory(view, node);
  if (S_ISLNK(seen->mode)) {
    EXPECT_EQ(*view.symlink(ino), node.target);
  }
  if (S_ISREG(seen->mode)) {
    std::vector<uint64_t> bytes = node.bytes;
    while (!bytes.empty() && bytes.back() == Model::kHole) bytes.pop_back();
    EXPECT_EQ(bytes_of(view, ino), bytes);
  }
  const auto names = view.xattrs(ino);
  ASSERT_THAT(names, IsOk());
  EXPECT_EQ(names->size(), node.xattrs.size());
  for (const auto& [name, value] : node.xattrs) EXPECT_EQ(*view.xattr(ino, name), value);
}

void expect_model(View& view, const Model& model) {
  for (const auto& [ino, node] : model.nodes()) {
    SCOPED_TRACE(fmt::format("version {}, inode {}", view.version(), ino));
    expect_node(view, node);
  }
  EXPECT_EQ(*view.totals(), model.totals());
}

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed) {
    Settings settings = test_settings();
    settings.retention = std::nullopt;
    open(settings);
    versions_[database_->last_version()] = model_;
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", i));
      step();
    }
    commit();
    expect_model(*names_, model_);
    for (const auto& [version, model] : versions_) expect_model(**names_->at(version), model);
    EXPECT_THAT(*database_->check(), ::testing::IsEmpty());
  }

 private:
  // What it did is lost in a crash before the next commit, and comes back when it is done again.
  template <typename Call>
  auto call(Call made) {
    auto answer = made();
    if (answer.ok()) uncommitted_.push_back([made] { EXPECT_THAT(made(), IsOk()); });
    return answer;
  }
  void open(const std::optional<Settings>& create) {
    names_.reset();
    database_.reset();
    database_ = std::move(*open_sqlite(fs_, "/v.db", {.create = create}));
    names_ = std::move(*database_->open("train"));
    for (const auto& again : uncommitted_) again();
    object_ = {database_->session(), 1};
    const Object object{.id = object_, .state = ObjectState::kStored, .bytes = kGiB};
    EXPECT_THAT(call([=, this] { return database_->add_object(object); }), IsOk());
  }

  uint64_t pick(uint64_t below) { return random_() % below; }
  bool chance(uint64_t percent) { return pick(100) < percent; }
  std::string name() { return fmt::format("n{}", pick(6)); }
  Ino ino() {
    if (chance(3)) return 5000;
    const uint64_t at = pick(model_.nodes().size());
    return std::next(model_.nodes().begin(), static_cast<int64_t>(at))->first;
  }
  Ino directory() {
    for (int i = 0; i < 10; ++i) {
      const Ino one = ino();
      if (model_.find(one) != nullptr && model_.find(one)->inode.is_directory()) return one;
    }
    return chance(90) ? kRoot : ino();
  }
  Ino regular() {
    for (int i = 0; i < 10; ++i) {
      const Ino one = ino();
      if (model_.find(one) != nullptr && S_ISREG(model_.find(one)->inode.mode)) return one;
    }
    return ino();
  }

  void step() {
    now_ += 1;
    const uint64_t kind = pick(100);
    if (kind < 18) return create();
    if (kind < 23) return link();
    if (kind < 35) return remove();
    if (kind < 47) return rename();
    if (kind < 55) return change();
    if (kind < 60) return xattr();
    if (kind < 85) return content();
    if (kind < 90) return compare();
    if (kind < 97) return commit();
    if (kind < 98) return reopen();
    if (kind < 99) return crash();
    return purge();
  }

  void create() {
    constexpr uint32_t kTypes[] = {S_IFREG, S_IFREG, S_IFREG, S_IFDIR, S_IFDIR, S_IFLNK};
    NewInode wanted{.mode = kTypes[pick(6)] | 0600u, .uid = static_cast<uint32_t>(pick(9))};
    if (S_ISLNK(wanted.mode)) wanted.target = fmt::format("target-{}", pick(100));
    const Ino parent = directory();
    const std::string one = name();
    const Result<Inode> made =
        call([=, this, now = now_] { return names_->create(parent, one, wanted, now); });
    EXPECT_EQ(errno_of(made), model_.create(parent, one, wanted, made.ok() ? made->ino : 0, now_));
  }
  void link() {
    const Ino one = ino();
    const Ino parent = directory();
    const std::string as = name();
    const auto linked = call([=, this, now = now_] { return names_->link(one, parent, as, now); });
    EXPECT_EQ(errno_of(linked), model_.link(one, parent, as, now_));
  }
  void remove() {
    const Ino parent = directory();
    const std::string one = name();
    const bool is_directory = chance(40);
    const auto removed = call([=, this, now = now_] {
      return is_directory ? names_->remove_directory(parent, one, now)
                          : names_->unlink(parent, one, now);
    });
    EXPECT_EQ(errno_of(removed), model_.remove(parent, one, is_directory, now_));
    if (removed.ok() && removed->inode.links == 0 && chance(70)) forget(removed->inode.ino);
    if (chance(10)) forget(ino());
  }
  void forget(Ino one) {
    EXPECT_EQ(errno_of(call([=, this] { return names_->forget(one); })), model_.forget(one));
  }
  void rename() {
    const Ino from = directory();
    const Ino to = directory();
    const std::string old_name = name();
    const std::string new_name = name();
    const auto mode = static_cast<Rename>(pick(3));
    const auto renamed = call(
        [=, this, now = now_] { return names_->rename(from, old_name, to, new_name, mode, now); });
    EXPECT_EQ(errno_of(renamed), model_.rename(from, old_name, to, new_name, mode, now_));
  }
  void change() {
    Changes changes;
    if (chance(30)) changes.permissions = static_cast<uint32_t>(pick(07777));
    if (chance(30)) changes.uid = static_cast<uint32_t>(pick(10));
    if (chance(30)) changes.gid = static_cast<uint32_t>(pick(10));
    if (chance(40)) changes.size = pick(kFileBytes);
    if (chance(30)) changes.atime = now_;
    if (chance(30)) changes.mtime = static_cast<Time>(pick(1000));
    const Ino one = changes.size ? regular() : ino();
    const auto changed = call([=, this, now = now_] { return names_->change(one, changes, now); });
    EXPECT_EQ(errno_of(changed), model_.change(one, changes, now_));
  }
  void xattr() {
    const Ino one = ino();
    const std::string key = fmt::format("user.{}", pick(3));
    if (chance(30)) {
      const auto removed =
          call([=, this, now = now_] { return names_->remove_xattr(one, key, now); });
      EXPECT_EQ(errno_of(removed), model_.remove_xattr(one, key, now_));
      return;
    }
    const auto mode = static_cast<XattrMode>(pick(3));
    const std::string value(pick(30), static_cast<char>('a' + pick(26)));
    const auto set =
        call([=, this, now = now_] { return names_->set_xattr(one, key, value, mode, now); });
    EXPECT_EQ(errno_of(set), model_.set_xattr(one, key, value, mode, now_));
  }

  Place place(uint64_t raw) {
    const Place one{
        .object = object_, .offset = offset_, .stored = raw, .raw = raw, .checksum = ++tag_};
    offset_ += raw;
    return one;
  }
  void content() {
    const Ino one = regular();
    const uint64_t offset = pick(kFileBytes);
    const uint64_t length = 1 + pick(kFileBytes / 2);
    const Time now = now_;
    switch (pick(7)) {
      case 0:
      case 1:
      case 2: {
        std::vector<Place> chunks;
        for (uint64_t i = 1 + pick(3); i > 0; --i) chunks.push_back(place(1 + pick(60)));
        const auto written = call([=, this] { return names_->write(one, offset, chunks, now); });
        EXPECT_EQ(errno_of(written), model_.write(one, offset, chunks, now));
        return;
      }
      case 3: {
        const bool zeros = chance(50);
        const auto punched =
            call([=, this] { return names_->punch(one, offset, length, zeros, now); });
        EXPECT_EQ(errno_of(punched), model_.punch(one, offset, length, zeros, now));
        return;
      }
      case 4: {
        const bool grow = chance(50);
        const auto allocated =
            call([=, this] { return names_->allocate(one, offset, length, grow, now); });
        EXPECT_EQ(errno_of(allocated), model_.allocate(one, offset, length, grow, now));
        return;
      }
      case 5: {
        const Ino to = regular();
        const uint64_t at = pick(kFileBytes);
        const auto copied =
            call([=, this] { return names_->copy_range(one, offset, to, at, length, now); });
        EXPECT_EQ(errno_of(copied), model_.copy_range(one, offset, to, at, length, now));
        return;
      }
      default:
        return merge(one);
    }
  }
  // The same bytes in a chunk of their own: for the model they have to be other ones.
  void merge(Ino one) {
    ModelNode* node = model_.find(one);
    if (node == nullptr || !S_ISREG(node->inode.mode)) return;
    const auto extents = *names_->extents(one, pick(kFileBytes), 1 + pick(100));
    if (extents.empty()) return;
    const uint64_t begin = extents.front().offset;
    const uint64_t end = extents.back().offset + extents.back().length;
    const Place merged = place(end - begin);
    ASSERT_THAT(call([=, this] { return names_->merge(one, extents, merged); }), IsOk());
    for (uint64_t i = begin; i < end; ++i)
      node->bytes[i] = Model::byte_of(merged.checksum, i - begin);
    node->inode.allocated = names_->inode(one)->allocated;
  }

  void compare() {
    expect_model(*names_, model_);
    const auto& [version, model] =
        *std::next(versions_.begin(), static_cast<int64_t>(pick(versions_.size())));
    const auto view = names_->at(version);
    ASSERT_THAT(view, IsOk());
    expect_model(**view, model);
  }
  void commit() {
    const Result<Version> version = database_->commit({.now = now_});
    ASSERT_THAT(version, IsOk());
    versions_[*version] = model_;
    uncommitted_.clear();
  }
  void reopen() {
    commit();
    open(std::nullopt);
    EXPECT_THAT(*database_->check(), ::testing::IsEmpty());
  }
  // Made again, the calls give what they gave before: the model knows everything by its number.
  void crash() {
    open(std::nullopt);
    expect_model(*names_, model_);
    EXPECT_THAT(*database_->check(), ::testing::IsEmpty());
  }
  // With a snapshot somewhere in the past, up to which everything goes.
  void purge() {
    commit();
    auto kept = std::next(versions_.begin(), static_cast<int64_t>(pick(versions_.size())));
    Settings settings = names_->settings();
    settings.retention = Nanoseconds(0);
    ASSERT_THAT(names_->set_settings(settings), IsOk());
    const auto pin = database_->pin(kept->first);
    ASSERT_THAT(pin, IsOk());
    while (database_->purge(now_, 1 + pick(1000))->more) {
    }
    settings.retention = std::nullopt;
    ASSERT_THAT(names_->set_settings(settings), IsOk());
    versions_.erase(versions_.begin(), kept);
    EXPECT_EQ(names_->at(versions_.begin()->first - 1).ok(), false);
  }

  std::mt19937_64 random_;
  io::MemoryFileSystem fs_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Namespace> names_;
  Model model_;
  std::map<Version, Model> versions_;
  std::vector<std::function<void()>> uncommitted_;
  Time now_ = 0;
  ObjectId object_;
  uint64_t offset_ = 0;
  uint64_t tag_ = 0;
};

TEST(MetaModel, RandomOperationsDoWhatTheModelDoes) {
  const uint64_t runs = kSanitized ? 2 : 6;
  for (uint64_t seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun(seed).run(kSanitized ? 1000 : 2500);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace penstock::meta
