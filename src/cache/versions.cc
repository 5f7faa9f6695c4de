#include "cache/versions.h"

namespace penstock::cache {

namespace {
constexpr size_t kKeysMax = 16384;
}

Versions::Versions(std::string identity, Nanoseconds trust)
    : identity_(std::move(identity)), trust_(trust) {}

VersionRef Versions::make(const store::ObjectInfo& info) const {
  auto version = std::make_shared<Version>();
  version->info = info;
  version->object = {identity_ + info.key, info.etag, info.size};
  version->id = version_id(version->object);
  return version;
}

void Versions::keep(const std::string& key, VersionRef version, Clock::time_point learned_at) {
  const auto [at, is_new] = known_.try_emplace(key);
  if (is_new) {
    at->second.turn = turns_.insert(turns_.end(), key);
  } else {
    turns_.splice(turns_.end(), turns_, at->second.turn);
  }
  at->second.version = std::move(version);
  at->second.learned_at = learned_at;
  if (known_.size() > kKeysMax) {
    known_.erase(turns_.front());
    turns_.pop_front();
  }
}

VersionRef Versions::find(const std::string& key, const store::GetOptions& options) {
  std::lock_guard lock(mutex_);
  const auto at = known_.find(key);
  const Known* known = at == known_.end() ? nullptr : &at->second;
  if (options.if_match.empty()) {
    if (known == nullptr || !known->version || known->learned_at == Clock::time_point::min() ||
        Clock::now() - known->learned_at >= trust_) {
      return nullptr;
    }
    return known->version;
  }
  if (known != nullptr) {
    turns_.splice(turns_.end(), turns_, known->turn);
    const bool same = known->version && known->version->info.etag == options.if_match &&
                      (!options.size || *options.size == known->version->info.size);
    return same ? known->version : nullptr;
  }
  if (!options.size) return nullptr;
  VersionRef told = make({.key = key, .size = *options.size, .etag = options.if_match});
  keep(key, told, Clock::time_point::min());
  return told;
}

VersionRef Versions::learn(const store::ObjectInfo& info) {
  VersionRef version = make(info);
  std::lock_guard lock(mutex_);
  keep(info.key, version, Clock::now());
  return version;
}

void Versions::doubt(const std::string& key) {
  std::lock_guard lock(mutex_);
  keep(key, nullptr, Clock::time_point::min());
}

}  // namespace penstock::cache
