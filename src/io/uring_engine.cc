#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "base/thread_pool.h"
#include "io/uring_ring.h"

namespace penstock::io {

namespace {

class UringEngine final : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const LocalOptions& options) {
    auto engine = std::make_unique<UringEngine>();
    const size_t by_cores = std::clamp<size_t>(available_cores() / 4, options.rings_min, 4);
    const size_t wanted = options.threads != 0 ? options.threads : by_cores;
    for (size_t i = 0; i < wanted; ++i) {
      engine->rings_.push_back(std::make_unique<Ring>(i, options, engine->regions_));
      PENSTOCK_TRY(engine->rings_.back()->start());
    }
    engine->depth_ = options.queue_depth;
    return std::unique_ptr<Engine>(std::move(engine));
  }

  void submit(RawOpList ops) override {
    if (Ring* here = ours(Ring::current())) return here->submit_here(ops);
    const size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    rings_[turn % rings_.size()]->submit(ops);
  }

  void forget(FixedFiles& files) override {
    Ring* here = ours(Ring::current());
    for (size_t i = 0; i < rings_.size(); ++i) {
      if (files[i].slot < 0) continue;
      if (rings_[i].get() == here) {
        here->forget_here(files[i]);
      } else {
        rings_[i]
            ->post([ring = rings_[i].get(), &files, i] { ring->forget_here(files[i]); })
            .wait();
      }
    }
  }

  uint32_t add_region(std::span<std::byte> memory) override { return regions_.add(memory); }

  void remove_region(uint32_t region) override {
    const uint64_t generation = regions_.remove(region);
    // Not waited for: until a ring gets to it, the kernel keeps the pages alive, so unmapping them
    // is safe. By then the id may stand for other memory.
    for (const auto& ring : rings_) {
      ring->post(
          [ring = ring.get(), region, generation] { ring->drop_region_here(region, generation); });
    }
  }

  size_t rings() const override { return rings_.size(); }
  EngineKind kind() const override { return EngineKind::kUring; }
  std::string description() const override {
    return fmt::format("io_uring, {} ring{}, depth {}", rings_.size(),
                       rings_.size() == 1 ? "" : "s", depth_);
  }

 private:
  Ring* ours(Ring* ring) const {
    for (const auto& mine : rings_) {
      if (mine.get() == ring) return ring;
    }
    return nullptr;
  }

  RegionTable regions_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::atomic<size_t> turn_{0};
  uint32_t depth_ = 0;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_uring_engine(const LocalOptions& options) {
  return UringEngine::create(options);
}

}  // namespace penstock::io
