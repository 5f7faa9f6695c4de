// Random places and options against a simple model of what a run does.
#include <fmt/core.h>

#include <random>

#include "sync/filter.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

struct Object {
  std::string text;
  int64_t mtime_ns = 0;
};
using Objects = std::map<std::string, Object>;

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void check() {
    const bool from_tree = chance(2);
    const bool to_tree = chance(2);
    const Objects source = make_objects();
    Objects target = make_objects();
    // Much of it is there already.
    for (const auto& [key, object] : source) {
      if (chance(3)) target[key] = object;
    }
    const auto from = open(from_tree, "/from", source);
    const auto to = open(to_tree, "/to", target);
    const Options options = make_options();
    const Tree expected = expect(options, seen(*from), seen(*to));
    if (options.dry_run) {
      const Tree before = texts(*to);
      const Report would = run_ok(*from, *to, options);
      EXPECT_EQ(texts(*to), before);
      Options really = options;
      really.dry_run = false;
      const Report did = run_ok(*from, *to, really);
      EXPECT_EQ(would.totals.to_copy, did.totals.copied);
      EXPECT_EQ(would.totals.to_copy_bytes, did.totals.copied_bytes);
      EXPECT_EQ(would.totals.deleted, did.totals.deleted);
    } else {
      run_ok(*from, *to, options);
    }
    EXPECT_EQ(texts(*to), expected);
    Options again = options;
    again.dry_run = false;
    const Report second = run_ok(*from, *to, again);
    EXPECT_EQ(second.totals.copied, 0u);
    EXPECT_EQ(second.totals.deleted, 0u);
    EXPECT_EQ(texts(*to), expected);
  }

 private:
  bool chance(uint32_t one_in) { return random_() % one_in == 0; }

  std::string make_key() {
    // Files and folders by different names, so that every key can be with every other.
    static const std::vector<std::string> folders = {"d", "d-", "d.x", "\xff", "D", "e e"};
    static const std::vector<std::string> files = {"f", "f.tar", "f\n", "g.tmp", "z"};
    std::string key;
    while (chance(2)) key += folders[random_() % folders.size()] + "/";
    return key + files[random_() % files.size()];
  }

  Object make_object() {
    static constexpr size_t kSizes[] = {0, 1, 100, 5000, 9000, 30'000};
    Object object;
    object.text = std::string(kSizes[random_() % std::size(kSizes)], 'a');
    for (char& c : object.text) c = static_cast<char>(random_());
    object.mtime_ns = 1'000'000'000'000'000'000 + static_cast<int64_t>(random_() % 5);
    return object;
  }

  Objects make_objects() {
    Objects objects;
    const size_t count = random_() % 30;
    for (size_t i = 0; i < count; ++i) objects[make_key()] = make_object();
    return objects;
  }

  Options make_options() {
    static const std::vector<std::string> patterns = {"*.tar", "d",     "d/",  "/d/**", "f*",
                                                      "**/f",  "*.tmp", "e*/", "D/f",   "?"};
    Options options = small_options();
    options.jobs = 1 + static_cast<uint32_t>(random_() % 20);
    options.checksum = chance(3);
    options.delete_extra = chance(2);
    options.dry_run = chance(4);
    options.verify = chance(2);
    if (chance(2)) {
      for (size_t i = 0; i < 1 + random_() % 3; ++i) {
        options.filters.push_back({chance(2), patterns[random_() % patterns.size()]});
      }
    }
    return options;
  }

  std::unique_ptr<Place> open(bool tree, const std::string& root, const Objects& objects) {
    if (!tree) {
      auto place = store_place(store::make_memory_store());
      for (const auto& [key, object] : objects) {
        EXPECT_THAT(place->store->put(key, bytes_of(object.text)), IsOk());
      }
      return place;
    }
    EXPECT_THAT(io::make_directories(fs_, root), IsOk());
    for (const auto& [key, object] : objects) {
      write_file(fs_, root + "/" + key, object.text, object.mtime_ns);
    }
    return tree_place(fs_, root);
  }

  static Tree texts(Place& place) { return objects_of(*place.store); }

  // What is there, with the times that the place tells.
  static Objects seen(Place& place) {
    Objects objects;
    for (const auto& [key, text] : texts(place)) {
      objects[key] = {text, place.store->head(key)->mtime_ns};
    }
    return objects;
  }

  Tree expect(const Options& options, const Objects& source, const Objects& target) const {
    Tree expected;
    for (const auto& [key, object] : target) {
      const bool goes =
          options.delete_extra && !source.contains(key) && selected(options.filters, key);
      if (!goes) expected[key] = object.text;
    }
    for (const auto& [key, object] : source) {
      if (!selected(options.filters, key)) continue;
      const auto there = target.find(key);
      if (there != target.end() && !differs(options, object, there->second)) continue;
      expected[key] = object.text;
    }
    return expected;
  }

  // The times of the places of this test never say "the same" where one of them is a store: the
  // files are of 2001, the objects of now; so a file is older than an object, and has not its time.
  bool differs(const Options& options, const Object& source, const Object& target) const {
    if (source.text.size() != target.text.size()) return true;
    if (options.checksum) return source.text != target.text;
    const bool from_file = source.mtime_ns < 1'100'000'000'000'000'000;
    const bool to_file = target.mtime_ns < 1'100'000'000'000'000'000;
    if (from_file && !to_file) return false;
    if (from_file && to_file) return source.mtime_ns != target.mtime_ns;
    if (!from_file && to_file) return true;
    return source.mtime_ns > target.mtime_ns;
  }

  std::mt19937_64 random_;
  io::MemoryFileSystem fs_;
};

TEST(Model, RandomPlacesAndOptions) {
  const uint64_t seed = std::random_device{}();
  for (uint64_t i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}", seed + i));
    Model(seed + i).check();
  }
}

}  // namespace

}  // namespace penstock::sync
