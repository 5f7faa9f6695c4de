#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <unordered_map>

#include "base/rate_limiter.h"
#include "cache/cached_store.h"

namespace penstock::cache {

// Fetches what a reader said it will read onto the drives, window by window, in the order it was
// said. Windows are what is staged and finished; ranges only point at them.
class StagerImpl final : public Stager {
 public:
  StagerImpl(CachedStoreImpl& store, const StageOptions& options);
  ~StagerImpl() override;

  void expect(std::vector<Range> ranges) override;
  void finished(const Range& range, bool again) override;
  Progress progress() const override;

 private:
  // Shared with the requests under way, which may outlive the stager.
  struct Shared : std::enable_shared_from_this<Shared> {
    enum class State : uint8_t { kQueued, kUnderWay, kStaged, kFailed };
    struct Window {
      VersionRef version;
      uint64_t index = 0;
      uint64_t bytes = 0;   // Of the window.
      uint32_t wanted = 0;  // Ranges expected and not yet finished that need it.
      State state = State::kQueued;
    };
    using Table = std::unordered_map<EntryId, Window, EntryIdHash>;

    Shared(CachedStoreImpl& owner, const StageOptions& stage_options);
    void pump();
    bool start_next(std::unique_lock<std::mutex>& lock);
    void staged(const EntryId& id, const Result<uint64_t>& fetched);
    uint64_t ahead_limit() const;
    static bool is_pending(const Window& window) {
      return window.state == State::kQueued || window.state == State::kUnderWay;
    }

    CachedStoreImpl& store;
    const StageOptions options;
    RateLimiter rate;
    mutable std::mutex mutex;
    PassRef pass;             // Null once the stager is gone.
    std::stop_source cancel;  // Of fetches under way.
    Table windows;
    std::deque<EntryId> queue;
    uint64_t ahead_bytes = 0;  // Staged or under way, and not finished.
    uint32_t under_way = 0;
    Deadline not_before = Deadline::min();  // The rate, or no room just now.
    Progress progress;
  };

  const std::shared_ptr<Shared> shared_;
};

}  // namespace penstock::cache
