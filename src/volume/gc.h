// Gives back what nothing refers to or retains, and rewrites objects that are mostly garbage.
//
// Safe beside whoever reads and writes: an object is condemned in the database, committed, before
// it is deleted, and a reader that finds it gone asks again where its bytes are. It may be stopped
// anywhere, and goes on where it was.
#pragma once

#include <functional>

#include "penstock/meta.h"
#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/packer.h"

namespace penstock::volume {

class Gc {
 public:
  // `commit` makes all that the database was told durable. All outlive it.
  Gc(meta::Database& database, Packer& packer, const VolumeUuid& space,
     std::function<Result<void>()> commit, std::function<meta::Time()> now)
      : database_(database),
        packer_(packer),
        space_(space),
        commit_(std::move(commit)),
        now_(std::move(now)) {}

  Result<GcReport> run(const GcOptions& options);
  // Only what nothing refers to goes; history stays, and nothing is rewritten.
  Result<GcReport> sweep(const GcOptions& options);

 private:
  Result<GcReport> remove_unused(const GcOptions& options);
  Result<void> purge(const GcOptions& options);
  Result<void> visit(const std::function<Result<void>(const meta::Object&)>& visit);
  Result<void> compact(const GcOptions& options);
  Result<void> compact_object(const meta::Object& object, const GcOptions& options);
  Result<void> condemn(const GcOptions& options);
  Result<void> remove_condemned(const GcOptions& options);
  Result<void> remove_keys(const std::vector<meta::Object>& objects);
  Result<void> remove_orphans(const GcOptions& options);

  meta::Database& database_;
  Packer& packer_;
  const VolumeUuid space_;
  const std::function<Result<void>()> commit_;
  const std::function<meta::Time()> now_;
  GcReport report_;
};

}  // namespace penstock::volume
