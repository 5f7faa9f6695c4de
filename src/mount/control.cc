#include "mount/control.h"

#include <nlohmann/json.hpp>

#include "base/thread_pool.h"
#include "volume/admin.h"

namespace penstock::mount {

namespace {

// A drain looks this often whether it is to stop.
constexpr auto kDrainStep = std::chrono::seconds(1);

}  // namespace

Control::Control(std::shared_ptr<volume::Host> host, MountFacts facts)
    : host_(std::move(host)), facts_(std::move(facts)) {}

Control::~Control() {
  stopping_ = true;
  if (drainer_.joinable()) drainer_.join();
}

Result<std::string> Control::status(const std::map<std::string, uint64_t>& requests) {
  const volume::VolumeStatus volume =
      PENSTOCK_TRY(volume::volume_status(*host_, facts_.volume, facts_.directory));
  const volume::HostStatus& host = volume.host;
  nlohmann::ordered_json json = {
      {"volume", facts_.volume},
      {"directory", volume.mounted_at},
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
  Result<void> drained;
  do {
    drained = host_->drain(deadline_in(kDrainStep));
  } while (!stopping_ && !drained.ok() && drained.error().code == ErrorCode::kTimeout);
  const std::lock_guard lock(mutex_);
  draining_ = false;
  if (!drained.ok()) drain_error_ = drained.error().detail;
}

}  // namespace penstock::mount
