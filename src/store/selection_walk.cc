#include <fmt/core.h>

#include <future>

#include "base/glob.h"
#include "store/selection.h"

namespace penstock::store {

namespace {

constexpr size_t kHeadsAtOnce = 64;

bool matches_or_is_below(const Glob& glob, std::string_view key) {
  for (size_t slash = key.find('/'); slash != std::string_view::npos;
       slash = key.find('/', slash + 1)) {
    if (glob.matches(key.substr(0, slash))) return true;
  }
  return glob.matches(key);
}

// Answers in the order of the keys.
std::vector<Result<ObjectInfo>> head_all(ObjectStore& store, std::span<const std::string> keys,
                                         const CallOptions& options) {
  std::vector<std::future<Result<ObjectInfo>>> futures;
  for (const std::string& key : keys) {
    const auto promise = std::make_shared<std::promise<Result<ObjectInfo>>>();
    futures.push_back(promise->get_future());
    store.async_head(key, options,
                     [promise](Result<ObjectInfo> info) { promise->set_value(std::move(info)); });
  }
  std::vector<Result<ObjectInfo>> answers;
  for (auto& future : futures) answers.push_back(future.get());
  return answers;
}

}  // namespace

// Goes through the objects of one part.
class Selection::Walk {
 public:
  Walk(const Part& part, ObjectStore& store, const Visit& visit, const Missing& missing,
       const CallOptions& options)
      : part_(part), store_(store), visit_(visit), missing_(missing), options_(options) {}

  // False: `visit` wants no more.
  Result<bool> run() {
    if (part_.pattern.empty()) return list("", nullptr, "");
    std::vector<std::string> keys;
    for (const std::string& name : PENSTOCK_TRY(expand_braces(part_.pattern, kNamesMax))) {
      const Glob glob(name);
      if (!glob.is_literal() || name.ends_with('/')) {
        const Glob* const filter = glob.is_literal() ? nullptr : &glob;
        if (!PENSTOCK_TRY(list(glob.literal(), filter, name))) return false;
        continue;
      }
      keys.push_back(glob.literal());
      if (keys.size() < kHeadsAtOnce) continue;
      if (!PENSTOCK_TRY(look_up(keys))) return false;
      keys.clear();
    }
    return look_up(keys);
  }

 private:
  Result<bool> visit(ObjectInfo object) {
    if (object.etag.empty()) {
      Result<ObjectInfo> known = store_.head(object.key, options_);
      // Removed since it was listed.
      if (!known.ok() && known.error().code == ErrorCode::kNotFound) return true;
      object = PENSTOCK_TRY(std::move(known));
    }
    return visit_(part_.store, object);
  }

  // What begins with `prefix` and matches; `name` for people.
  Result<bool> list(const std::string& prefix, const Glob* glob, const std::string& name) {
    bool any = false;
    Result<bool> going = true;
    const Result<void> listed = for_each_object(
        store_, prefix,
        [&](const ObjectInfo& object) {
          if (glob != nullptr && !matches_or_is_below(*glob, object.key)) return true;
          any = true;
          going = visit(object);
          return going.ok() && *going;
        },
        options_);
    if (!listed.ok()) return listed.error();
    if (!any) missing_(part_.front + name);
    return going;
  }

  // Objects, or else folders of that name.
  Result<bool> look_up(const std::vector<std::string>& keys) {
    const std::vector<Result<ObjectInfo>> objects = head_all(store_, keys, options_);
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool there = objects[i].ok();
      if (!there && objects[i].error().code != ErrorCode::kNotFound) return objects[i].error();
      const Result<bool> going = there ? visit(*objects[i]) : list(keys[i] + "/", nullptr, keys[i]);
      if (!PENSTOCK_TRY(going)) return false;
    }
    return true;
  }

  const Part& part_;
  ObjectStore& store_;
  const Visit& visit_;
  const Missing& missing_;
  const CallOptions& options_;
};

Result<void> Selection::for_each(std::span<ObjectStore* const> stores, const Visit& visit,
                                 const Missing& missing, const CallOptions& options) const {
  for (const Part& part : parts_) {
    Walk walk(part, *stores[part.store], visit, missing, options);
    if (!PENSTOCK_TRY(walk.run())) break;
  }
  return {};
}

}  // namespace penstock::store
