// Copies what differs from one place to another: a local directory, tree:, or s3://, to any of
// them.
//
//   auto from = PENSTOCK_TRY(sync::open_place("s3://bucket/raw", {}));
//   auto to = PENSTOCK_TRY(sync::open_place("/nvme/raw", {.create = true}));
//   sync::Report report = PENSTOCK_TRY(sync::run(*from, *to, {.jobs = 64}));
//
// What holds:
// - Each object appears at the target whole and verified, or not at all; also after kill -9, Ctrl-C and a
//   power cut. A second run continues where the first ended: what is there already is not copied.
// - Never wrong bytes: what is copied is one version of the source (if-match), and was verified
//   against what the source declared and at the target (by S3 itself, whose requests are signed with
//   a checksum or go through TLS; read back from a file system).
// - Nothing is written outside the target: names that would leave it, or that it cannot hold, are
//   errors of their own and do not stop the rest.
// - Errors of single objects are collected, and the rest goes on; run() fails only when nothing
//   can be done at all (a listing that cannot be read makes its folder an error).
// - What only the target has is deleted last, and not after any error.
// - Memory is bounded by `memory_bytes` and the names of the largest directories, whatever the
//   number of objects.
//
// What differs: another size; or, of equal size, another time of change. Between trees times must be
// equal, as exactly as the target keeps them. A file differs from an S3 object when it has another
// time than the one that a sync recorded in the object's metadata; that is looked at only when the
// file is newer than the object or was changed less than a minute before, and an older file is the
// same where nothing was recorded. An S3 object differs from a file when the file has neither its
// time of change nor the one recorded; from another S3 object when it is newer, unless both have one
// etag. With `checksum`: other bytes, whatever the times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/store.h"

namespace penstock::sync {

// A store, and what a plain store cannot do where it is a local tree: links, modes and times.
struct Place {
  std::unique_ptr<store::ObjectStore> store;  // Null when the directory is missing.
  // Both null and empty when it is not a local tree.
  io::FileSystem* file_system = nullptr;
  std::string directory;  // Absolute; without links in it unless it is missing.
  bool missing = false;   // The directory of a target: run() makes it.
  // Set when the address names one object: only that is copied.
  std::string only_key;
  std::string description() const;
};

struct PlaceOptions {
  bool create = false;  // A target: may be missing. Nothing is made before run().
  bool read_only = false;
  store::StoreOptions store = {};
  std::stop_token stop = {};  // Asking S3 may take long: kCancelled.
};
// A path, "tree:/path", "s3://bucket/prefix", with or without '/' at the end. A path or key that is one
// object is a place with only_key, in the folder that holds it; without `create` S3 is asked: a bucket
// must be there, and a prefix hold something. kNotFound names what is missing; kInvalid what was
// expected.
Result<std::unique_ptr<Place>> open_place(const std::string& address, const PlaceOptions& options);

// "*.tar", "train/**", "/top.txt": '*' and '?' do not match '/', "**" does; a pattern with a '/' in it
// that is not its last is matched from the top, any other at every level; one that ends with '/'
// matches folders only. What matches a folder matches all that is in it. The first filter that
// matches decides; what none matches is taken, unless the first filter is an include: then it is
// left out.
struct Filter {
  bool include = true;
  std::string pattern;
};
Result<void> check_filter(const Filter& filter);
// As run() decides. `key` is relative to the place.
bool selected(const std::vector<Filter>& filters, const std::string& key);

struct Progress {
  uint64_t listed = 0;  // Objects of the source seen so far.
  bool listing_done = false;
  uint64_t same = 0;
  uint64_t to_copy = 0, to_copy_bytes = 0;  // Found to differ so far.
  uint64_t copied = 0, copied_bytes = 0;    // Of these, at the target.
  uint64_t moved_bytes = 0;                 // Read for copying, also of what is still under way.
  uint64_t deleted = 0;                     // Directories too.
  uint64_t failed = 0;
};

struct Failure {
  std::string key;
  Error error;
};

// kAttributes: the bytes are the same, only the permission bits or the time are not.
enum class Action : uint8_t { kCopy, kDelete, kLink, kAttributes, kSkip };
std::string_view action_name(Action action);

struct Options {
  uint32_t jobs = 32;  // Objects (or, of a large one, ranges) under way. 1 to 1024.
  bool checksum = false;
  // What only the target has, filters permitting: last, and not after errors. But what is in the way
  // of something (a directory where a file belongs) goes just before that is copied.
  bool delete_extra = false;
  bool dry_run = false;
  bool verify = true;
  std::vector<Filter> filters;
  uint64_t bytes_per_second = 0;  // 0: no limit.
  // For what is being copied. At least 16 MiB; but an upload in parts to S3 holds four of them,
  // whatever this says.
  uint64_t memory_bytes = 512 * kMiB;
  // Objects above two of these go in ranges; to a store, above four. At least 4 KiB.
  uint64_t part_bytes = 16 * kMiB;
  std::stop_token stop = {};
  // Called now and then, from one thread at a time.
  std::function<void(const Progress&)> on_progress = {};
  // Every decision, as it is carried out (or would be): for --dry-run and --verbose. One at a time.
  std::function<void(Action, const std::string& key, uint64_t bytes, std::string_view why)>
      on_action = {};
  // A directory was made at the target: relative, "" for the top. For striping.
  std::function<void(const std::string& path)> on_directory = {};
};

// Something that is no object: a link that leads out, a device, S3's mark of a folder, an unfinished
// file; or that stays at the target because nothing can name it.
struct Skip {
  std::string key;
  std::string why;
};

struct Report {
  Progress totals;
  std::vector<Failure> failures;  // The first 100.
  uint64_t skipped = 0;
  std::vector<Skip> skips;  // The first 20.
  Nanoseconds time{0};
  bool stopped = false;  // By `stop`.
};

Result<Report> run(Place& from, Place& to, const Options& options);

}  // namespace penstock::sync
