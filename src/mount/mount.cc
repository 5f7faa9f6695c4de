#include "penstock/mount.h"

#include <sys/prctl.h>

#include "base/log.h"
#include "mount/control.h"
#include "mount/invalidation.h"
#include "mount/server.h"
#include "mount/session.h"

namespace penstock::mount {

namespace {

// Memory that the kernel finds by writing pages of this mount cannot be waited for by whom it would
// ask to write them. Takes CAP_SYS_RESOURCE; without it a machine out of memory may wait longer.
void declare_io_flusher() {
  (void)::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
}

fuse_custom_io watched_io() {
  fuse_custom_io io{};
  io.read = [](int fd, void* into, size_t size, void* server) {
    return static_cast<Server*>(server)->watch().read(fd, into, size);
  };
  io.writev = [](int fd, iovec* parts, int count, void* server) {
    return static_cast<Server*>(server)->watch().write(fd, parts, count);
  };
  return io;
}

class MountImpl final : public Mount {
 public:
  MountImpl(std::shared_ptr<volume::Host> host, std::string directory, const MountOptions& options)
      : host_(std::move(host)),
        directory_(std::move(directory)),
        options_(options),
        session_(directory_, options.threads_max) {}
  ~MountImpl() override {
    if (!invalidation_) return;
    invalidation_->stop();
    session_.leave();
    invalidation_.reset();
  }

  Result<void> start(std::string_view name) {
    live_ = PENSTOCK_TRY(host_->open(name));
    if (options_.version) past_ = PENSTOCK_TRY(live_->at(*options_.version));
    control_ = std::make_unique<Control>(
        host_,
        MountFacts{std::string(name), directory_, options_.version, options_.others, store_text()});
    volume::VolumeView& view = past_ ? *past_ : static_cast<volume::VolumeView&>(*live_);
    server_ = std::make_unique<Server>(view, past_ ? nullptr : live_.get(), *control_, directory_,
                                       options_);
    if (!past_ && options_.changes) {
      invalidation_ =
          std::make_unique<Invalidation>(options_.changes, live_->uuid(), server_->lookups());
    }
    declare_io_flusher();
    static const fuse_custom_io io = watched_io();
    PENSTOCK_TRY(session_.mount(options_, server_operations(), server_.get(), &io));
    server_->set_session(session_.get());
    if (invalidation_) invalidation_->start(session_.get());
    return {};
  }

  std::string store_text() const {
    const std::string store = live_->settings().store;
    return store.empty() ? "beside the metadata" : store;
  }

  Result<void> serve() override { return session_.serve(); }
  Result<void> unmount(Deadline deadline) override { return session_.unmount(deadline); }

 private:
  const std::shared_ptr<volume::Host> host_;
  const std::string directory_;
  const MountOptions options_;
  std::shared_ptr<volume::Volume> live_;
  std::unique_ptr<volume::VolumeView> past_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Invalidation> invalidation_;
  Session session_;  // Destroyed first: it uses the others.
};

}  // namespace

Result<std::unique_ptr<Mount>> Mount::start(std::shared_ptr<volume::Host> host,
                                            std::string_view volume, const std::string& directory,
                                            const MountOptions& options) {
  auto mount = std::make_unique<MountImpl>(std::move(host), directory, options);
  PENSTOCK_TRY(mount->start(volume));
  return std::unique_ptr<Mount>(std::move(mount));
}

}  // namespace penstock::mount
