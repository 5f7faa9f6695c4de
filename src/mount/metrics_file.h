// Metrics in a file, written anew every so often: for the textfile collector of node_exporter, and
// whatever else reads files. A reader sees a whole one, always.
//
// It is removed at the end: what is left of a process that was killed is told by its age.
// Threads: its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::mount {

class MetricsFile {
 public:
  static constexpr Nanoseconds kEvery = std::chrono::seconds(15);

  using Text = std::function<Result<std::string>()>;

  // Writes it for the first time: an error says that it cannot be, and nothing is left. After that
  // a failure is only told in the log, and tried again. `fs` outlives it.
  static Result<std::unique_ptr<MetricsFile>> start(io::FileSystem& fs, std::string path, Text text,
                                                    Nanoseconds every = kEvery);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  MetricsFile(io::FileSystem& fs, std::string path, Text text, Nanoseconds every);
  Result<void> write();
  void run();

  io::FileSystem& fs_;
  const std::string path_;
  const Text text_;
  const Nanoseconds every_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread writer_;
};

}  // namespace penstock::mount
