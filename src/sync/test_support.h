// What the tests of this layer share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/result_matchers.h"
#include "io/memory_file_system.h"
#include "penstock/sync.h"
#include "store/passing_store.h"

namespace penstock::sync {

using Tree = std::map<std::string, std::string>;

inline constexpr int64_t kTime = 1'600'000'000'123'456'789;

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Writes a file with its directories, and sets its time when one is given.
inline void write_file(io::FileSystem& fs, const std::string& path, std::string_view contents,
                       std::optional<int64_t> mtime_ns = std::nullopt,
                       std::optional<uint32_t> mode = std::nullopt) {
  ASSERT_THAT(io::make_directories(fs, io::parent_path(path)), IsOk());
  auto file = fs.open(path, {.access = io::Access::kReadWrite, .create = io::Create::kTruncate});
  ASSERT_THAT(file, IsOk()) << path;
  ASSERT_THAT((*file)->write(0, bytes_of(contents)), IsOk());
  ASSERT_THAT((*file)->set_attributes(mode, mtime_ns), IsOk());
}

// All that is below a directory: what a file holds, "-> x" of a link, "/" of a directory.
inline std::map<std::string, std::string> tree_of(io::FileSystem& fs, const std::string& root,
                                                  const std::string& below = "") {
  std::map<std::string, std::string> tree;
  std::vector<io::DirectoryEntry> entries;
  EXPECT_THAT(fs.list(root + "/" + below,
                      [&](const io::DirectoryEntry& entry) {
                        entries.push_back(entry);
                        return true;
                      }),
              IsOk());
  for (const io::DirectoryEntry& entry : entries) {
    const std::string name = below + entry.name;
    const std::string path = root + "/" + name;
    if (entry.kind == io::FileKind::kDirectory) {
      tree[name] = "/";
      tree.merge(tree_of(fs, root, name + "/"));
    } else if (entry.kind == io::FileKind::kSymlink) {
      tree[name] = "-> " + *fs.read_link(path);
    } else {
      tree[name] = io::read_file(fs, path, 64 * kMiB).value_or("unreadable");
    }
  }
  return tree;
}

inline std::map<std::string, std::string> objects_of(store::ObjectStore& store) {
  std::map<std::string, std::string> objects;
  EXPECT_THAT(store::for_each_object(store, "",
                                     [&](const store::ObjectInfo& info) {
                                       objects[info.key] = "";
                                       return true;
                                     }),
              IsOk());
  for (auto& [key, text] : objects) {
    const auto bytes = store::read_object(store, key, 64 * kMiB);
    EXPECT_THAT(bytes, IsOk()) << key;
    if (bytes.ok()) text.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  return objects;
}

inline std::unique_ptr<Place> tree_place(io::FileSystem& fs, const std::string& path,
                                         bool create = false) {
  Result<std::unique_ptr<Place>> place =
      open_place(path, {.create = create, .store = {.file_system = &fs}});
  EXPECT_THAT(place, IsOk());
  return place.ok() ? std::move(*place) : nullptr;
}

inline std::unique_ptr<Place> store_place(std::unique_ptr<store::ObjectStore> store) {
  auto place = std::make_unique<Place>();
  place->store = std::move(store);
  return place;
}

// Small ones, so that small objects are large.
inline Options small_options() {
  Options options;
  options.memory_bytes = 16 * kMiB;
  options.part_bytes = 4 * kKiB;
  options.jobs = 8;
  return options;
}

using store::PassingStore;

inline std::string failures_of(const Report& report) {
  std::string text;
  for (const Failure& failure : report.failures) {
    text += failure.key + ": " + failure.error.to_string() + "\n";
  }
  return text;
}

inline Report run_ok(Place& from, Place& to, const Options& options) {
  Result<Report> report = run(from, to, options);
  EXPECT_THAT(report, IsOk());
  if (!report.ok()) return {};
  EXPECT_EQ(report->totals.failed, 0u) << failures_of(*report);
  return *report;
}

inline std::string large_text(char seed) {
  std::string text(100'003, seed);
  for (size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i);
  return text;
}

// A tree with something of every kind but links.
inline void fill(io::MemoryFileSystem& fs, const std::string& root) {
  write_file(fs, root + "/a", "alpha", kTime, 0640);
  write_file(fs, root + "/d/e/large", large_text('x'), kTime + 1, 0755);
  write_file(fs, root + "/d/f", "effe", kTime + 2);
  write_file(fs, root + "/empty", "", kTime);
  write_file(fs, root + "/odd\n\xff\x01 name", "odd", kTime);
}

inline std::unique_ptr<Place> memory_place(const Tree& objects) {
  auto place = store_place(store::make_memory_store());
  for (const auto& [key, text] : objects) {
    EXPECT_THAT(place->store->put(key, bytes_of(text)), IsOk());
  }
  return place;
}

inline std::vector<std::string> failed_keys(const Report& report) {
  std::vector<std::string> keys;
  for (const Failure& failure : report.failures) keys.push_back(failure.key);
  return keys;
}

inline std::vector<std::string> skipped_keys(const Report& report) {
  std::vector<std::string> keys;
  for (const Skip& skip : report.skips) keys.push_back(skip.key);
  return keys;
}

}  // namespace penstock::sync
