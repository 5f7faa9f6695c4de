// SQLite under the tests that all engines pass.
#include "io/memory_file_system.h"
#include "meta/conformance.h"

namespace penstock::meta {

namespace {

class SqliteBed : public MetaBed {
 public:
  Result<std::unique_ptr<Database>> open(const std::optional<Settings>& create) override {
    return open_sqlite(fs_, "/volume.db", {.create = create, .now = kSecond});
  }

 private:
  io::MemoryFileSystem fs_;
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sqlite, MetaConformance,
                         ::testing::Values(MetaKind{"Memory",
                                                    [] { return std::make_unique<SqliteBed>(); }}),
                         meta_kind_name);

}  // namespace penstock::meta
