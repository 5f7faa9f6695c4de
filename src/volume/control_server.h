// Answers other processes for a volume that this one has, over its control socket.
//
// They get its files as a store (those of `pen://`), and what penstock volume does. Each connection
// has a thread; its requests are answered one after the other. What a client leaves behind when it
// goes away is undone: an unfinished put is as if it had never been, and what takes long is stopped.
// Threads: all calls from any thread.
// Stopping: stop() answers what is under way, but cancels what takes long; then nobody is heard any
// more. The caller still owns the host then.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/admin.h"
#include "volume/change_feed.h"
#include "volume/control_messages.h"
#include "volume/control_socket.h"

namespace penstock::volume {

struct ControlServerOptions {
  MountedAt mounted_at = nullptr;  // For people.
  std::shared_ptr<ChangeFeed> feed = nullptr;
  control::MountBeside mount_beside = nullptr;  // Null: this process serves no mounts.
  size_t connections_max = 256;                 // More are told to come back later.
};

class ControlServer {
 public:
  // In the directory of the host, whose lock this process holds.
  static Result<std::unique_ptr<ControlServer>> start(std::shared_ptr<Host> host,
                                                      const std::string& directory,
                                                      const ControlServerOptions& options);
  ~ControlServer() { stop(); }
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  void stop();
  size_t connections() const;

  // For connections.
  Result<std::shared_ptr<store::ObjectStore>> store_of(const control::OpenStoreRequest& request);
  Result<control::MountAnswer> mount(const control::MountRequest& request,
                                     const std::stop_token& cancel);
  Admin& admin() { return *admin_; }
  bool stopping() const { return stopping_; }

 private:
  struct Connection {
    control::Channel channel;
    std::thread thread;
    std::atomic<bool> ended = false;
  };

  ControlServer(std::shared_ptr<Host> host, control::Listener listener, int wake,
                const ControlServerOptions& options);
  void run();
  void accept_one();
  void join_ended();

  const std::shared_ptr<Host> host_;
  const ControlServerOptions options_;
  const std::unique_ptr<Admin> admin_;
  std::optional<control::Listener> listener_;
  const int wake_;  // An eventfd: the accepting thread is to look whether it should stop.
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;
  // Those in use; each once.
  std::map<std::tuple<std::string, std::string, std::string, bool>,
           std::weak_ptr<store::ObjectStore>>
      stores_;
  std::thread acceptor_;
  std::once_flag stopped_;
};

}  // namespace penstock::volume
