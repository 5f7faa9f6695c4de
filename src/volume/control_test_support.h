// Volumes on a real drive, which a control socket needs.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "volume/host_test_support.h"
#include "volume/owner.h"
#include "volume/pen_store.h"

namespace penstock::volume {

// A directory with one volume "v", gone at the end.
class RealVolume {
 public:
  RealVolume() {
    std::string pattern = (std::filesystem::temp_directory_path() / "control-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    EXPECT_THAT(create_host(directory(), {.name = "v"}, options()), IsOk());
  }
  ~RealVolume() { std::filesystem::remove_all(root_); }
  RealVolume(const RealVolume&) = delete;
  RealVolume& operator=(const RealVolume&) = delete;

  // Longer than the address of a socket can be.
  std::string directory() const { return root_ + "/" + std::string(120, 'd'); }
  static HostOptions options() {
    HostOptions options;
    options.memory_bytes = 64 * kMiB;
    options.segment_bytes = 4 * kMiB;
    options.writeback.journal_bytes = 256 * kMiB;
    return options;
  }
  std::shared_ptr<Owner> own(const OwnerOptions& with = {}) const {
    Result<std::shared_ptr<Owner>> owner = Owner::open(directory(), options(), with);
    EXPECT_THAT(owner, IsOk());
    return owner.ok() ? *owner : nullptr;
  }
  PenOptions pen(const std::string& folder = {}) const {
    return {
        .directory = directory(), .volume = "v", .name = "v", .folder = folder, .host = options()};
  }
  std::unique_ptr<store::ObjectStore> store(const std::string& folder = {}) const {
    Result<std::unique_ptr<store::ObjectStore>> store = open_pen_store(pen(folder));
    EXPECT_THAT(store, IsOk());
    return store.ok() ? std::move(*store) : nullptr;
  }

 private:
  std::string root_;
};

// Until it holds, or for too long.
inline bool eventually(const std::function<bool()>& holds) {
  const Deadline deadline = deadline_in(std::chrono::seconds(20));
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace penstock::volume
