#include "mount/control.h"

#include <nlohmann/json.hpp>

#include "base/thread_pool.h"

namespace penstock::mount {

Control::Control(std::shared_ptr<volume::Host> host, MountFacts facts)
    : admin_(volume::make_local_admin(std::move(host))), facts_(std::move(facts)) {}

Control::~Control() {
  stop_.request_stop();
  if (drainer_.joinable()) drainer_.join();
}

Result<std::string> Control::status(const std::map<std::string, uint64_t>& requests) {
  const volume::VolumeStatus volume = PENSTOCK_TRY(admin_->status(facts_.volume));
  const volume::HostStatus& host = volume.host;
  nlohmann::ordered_json json = {
      {"volume", facts_.volume},
      {"directory", facts_.directory},
      {"pid", volume.owner_pid},
      {"read_only", facts_.version.has_value()},
      {"version", facts_.version.value_or(host.version)},
      {"pending",
       {{"journal_bytes", host.pending.journal_bytes},
        {"content_bytes", host.pending.content_bytes},
        {"oldest_ns", host.pending.oldest}}},
      {"memory_bytes", host.memory_bytes},
      {"stored_bytes", host.stored_bytes},
      {"live_bytes", host.live_bytes},
      {"objects", host.objects},
      {"requests", requests},
      {"others", facts_.others ? facts_.others() : std::vector<std::string>()},
  };
  const std::lock_guard lock(mutex_);
  json["draining"] = draining_;
  json["drain_error"] = drain_error_;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Control::start_drain() {
  const std::lock_guard lock(mutex_);
  if (draining_) return;
  if (drainer_.joinable()) drainer_.join();  // It has ended, or is about to.
  draining_ = true;
  drain_error_.clear();
  drainer_ = std::thread([this] { run(); });
}

void Control::run() {
  set_thread_name("mount-drain");
  const Result<void> drained = admin_->drain(kNoDeadline, {}, stop_.get_token());
  const std::lock_guard lock(mutex_);
  draining_ = false;
  if (!drained.ok()) drain_error_ = drained.error().detail;
}

}  // namespace penstock::mount
