// A volume of another owner, as a store: the tests that all stores pass, and what is its own.
#include "volume/remote_store.h"

#include <sys/stat.h>

#include <thread>

#include "store/conformance.h"
#include "volume/control_call.h"
#include "volume/control_test_support.h"
#include "volume/volume_listing.h"

namespace penstock::volume {
namespace {

class RemoteBed : public store::StoreBed {
 public:
  RemoteBed() : owner_(volume_.own()) {}
  std::unique_ptr<store::ObjectStore> open() override { return volume_.store(); }
  std::unique_ptr<store::ObjectStore> open_folder(const std::string& folder) override {
    return volume_.store(folder.substr(0, folder.find_last_not_of('/') + 1));
  }

 private:
  RealVolume volume_;
  std::shared_ptr<Owner> owner_;
};

store::StoreKind remote_kind() {
  store::StoreKind kind;
  kind.name = "RemoteVolume";
  kind.make = [] { return std::make_unique<RemoteBed>(); };
  kind.remote = true;  // Each bed takes a real drive.
  kind.nests = false;
  kind.part_bytes_max = 255;
  kind.attributes = store::Attributes::kOfFile;
  return kind;
}

// Files whose put is not finished.
size_t unfinished(Host& host) {
  const auto volume = *host.open("v");
  const auto entries = *volume->names().list(meta::kRoot, 0, 1000);
  return static_cast<size_t>(std::ranges::count_if(
      entries, [](const meta::Entry& entry) { return entry.name.starts_with(kTemporaryPrefix); }));
}

TEST(RemoteStore, TellsWhatItIsAsTheOwnerWould) {
  const RealVolume volume;
  std::string here;
  {
    const auto own = volume.store("a/b");
    here = own->identity();
  }
  const auto owner = volume.own();
  const auto store = volume.store("a/b");
  EXPECT_EQ(store->identity(), here);
  EXPECT_EQ(store->description(), "pen://v/a/b");
  EXPECT_TRUE(store->capabilities().writable);
}

TEST(RemoteStore, ErrorsAreThoseOfTheOwner) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto store = volume.store();
  const auto missing = store->head("nothing");
  ASSERT_THAT(missing, FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(missing.error().detail, "no object 'nothing' in pen://v");
  PenOptions wrong = volume.pen();
  wrong.volume = "other";
  EXPECT_THAT(open_pen_store(wrong), FailsWith(ErrorCode::kNotFound));
}

TEST(RemoteStore, ReadsOfManyPiecesAreOfOneVersion) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto store = volume.store();
  constexpr size_t kBytes = 3 * kMiB + 17;
  ASSERT_THAT(store->put("file", Bytes(kBytes, std::byte{0})), IsOk());
  std::jthread writer([&](const std::stop_token& stop) {
    const auto other = volume.store();
    for (uint8_t round = 1; !stop.stop_requested(); ++round) {
      ASSERT_THAT(other->put("file", Bytes(kBytes, std::byte{round})), IsOk());
    }
  });
  Bytes bytes(kBytes + 5);
  for (int i = 0; i < 20; ++i) {
    const auto got = store->get("file", 0, bytes);
    if (!got.ok()) {
      ASSERT_THAT(got, FailsWith(ErrorCode::kChanged));  // It gave up: that is allowed.
      continue;
    }
    ASSERT_EQ(got->bytes, kBytes);
    ASSERT_TRUE(std::all_of(bytes.begin(), bytes.begin() + kBytes,
                            [&](std::byte byte) { return byte == bytes[0]; }));
  }
}

TEST(RemoteStore, AnUploadThatEndsWithItsClientLeavesNothing) {
  const RealVolume volume;
  const auto owner = volume.own();
  {
    control::Link link;
    link.channel = *control::connect_to_owner(volume.directory());
    ASSERT_THAT(control::call(link, control::Kind::kOpenStore,
                              control::encode(control::OpenStoreRequest{.volume = "v"}), {}),
                IsOk());
    ++link.last_request;
    ASSERT_THAT(control::send_request(link, control::Kind::kPut,
                                      control::encode(control::PutRequest{.key = "file"})),
                IsOk());
    ASSERT_THAT(
        control::send_request(link, control::Kind::kPutData, {}, Bytes(100'000, std::byte{7})),
        IsOk());
    ASSERT_TRUE(eventually([&] { return unfinished(*owner->host()) == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return unfinished(*owner->host()) == 0; }));
  EXPECT_THAT(volume.store()->head("file"), FailsWith(ErrorCode::kNotFound));
}

TEST(RemoteStore, AnUploadIsToldOfItsErrorBeforeItsEnd) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto store = volume.store();
  ASSERT_THAT(store->put("a", Bytes(1)), IsOk());
  // A file is in the way.
  auto upload = *store->start_upload("a/b", {});
  const Bytes piece(kMiB);
  EXPECT_TRUE(eventually([&] { return !upload->write(piece).ok(); }));
  upload.reset();
  EXPECT_THAT(store->put("c", piece), IsOk());
}

TEST(RemoteStore, GoesOnWithTheNextOwner) {
  const RealVolume volume;
  auto owner = volume.own();
  const auto store = volume.store();
  ASSERT_THAT(store->put("before", bytes_of("x")), IsOk());
  auto upload = *store->start_upload("cut-off", {});
  ASSERT_THAT(upload->write(Bytes(10)), IsOk());
  owner.reset();
  owner = volume.own();
  EXPECT_EQ(*store::read_object(*store, "before", 100), bytes_of("x"));
  EXPECT_THAT(store->put("after", bytes_of("y")), IsOk());
  EXPECT_THAT(store->flush(), IsOk());
  const auto cut_off = upload->finish();
  ASSERT_THAT(cut_off, FailsWith(ErrorCode::kUnavailable));
  EXPECT_TRUE(cut_off.error().retryable);
  EXPECT_THAT(store->head("cut-off"), FailsWith(ErrorCode::kNotFound));
}

TEST(RemoteStore, TakesOverWhereNobodyElseDoes) {
  const RealVolume volume;
  auto owner = volume.own();
  const auto store = volume.store();
  ASSERT_THAT(store->put("before", bytes_of("x")), IsOk());
  owner.reset();
  EXPECT_EQ(*store::read_object(*store, "before", 100), bytes_of("x"));
  EXPECT_THAT(store->put("after", bytes_of("y")), IsOk());
  // Now it is the one that others go through.
  EXPECT_THAT(open_host(volume.directory(), RealVolume::options()), FailsWith(ErrorCode::kBusy));
  control::Link link;
  link.channel = *control::connect_to_owner(volume.directory());
  EXPECT_THAT(control::call(link, control::Kind::kVolumes, {}, {}), IsOk());
}

TEST(RemoteStore, ManyThreadsAtOnce) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto store = volume.store();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string key = "t" + std::to_string(t) + "/" + std::to_string(i);
        const Bytes bytes = store::make_bytes(static_cast<size_t>(i) * 50'000, t * 100 + i);
        ASSERT_THAT(store->put(key, bytes), IsOk());
        ASSERT_EQ(*store::read_object(*store, key, kMiB), bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RemoteStore, ACallThatIsCancelledComesBack) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto store = volume.store();
  std::stop_source stop;
  stop.request_stop();
  store::CallOptions options;
  options.cancel = stop.get_token();
  EXPECT_THAT(store->head("x", options), FailsWith(ErrorCode::kCancelled));
  options = {};
  options.deadline = Deadline::min();
  EXPECT_THAT(store->head("x", options), FailsWith(ErrorCode::kTimeout));
  EXPECT_THAT(store->head("x"), FailsWith(ErrorCode::kNotFound));
}

}  // namespace
}  // namespace penstock::volume

namespace penstock::store {
INSTANTIATE_TEST_SUITE_P(RemoteVolume, StoreConformance, ::testing::Values(volume::remote_kind()),
                         store_kind_name);
}  // namespace penstock::store
