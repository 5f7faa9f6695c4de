#include <future>
#include <latch>
#include <thread>

#include "data/far_store.h"
#include "data/test_support.h"

namespace penstock::data {
namespace {

class DatasetTest : public ::testing::Test {
 protected:
  OpenOptions options() {
    OpenOptions options;
    options.file_system = &fs_;
    options.index_dir = "/index";
    options.threads = 4;
    return options;
  }
  std::unique_ptr<Dataset> open(const std::vector<std::string>& addresses) {
    return open(addresses, options());
  }
  std::unique_ptr<Dataset> open(const std::vector<std::string>& addresses,
                                const OpenOptions& options) {
    auto dataset = Dataset::open(addresses, options);
    EXPECT_THAT(dataset, IsOk());
    return dataset.ok() ? std::move(*dataset) : nullptr;
  }
  // `shards` tars of `count` samples in /data; all their samples.
  Samples write_tars(size_t shards, size_t count) {
    Samples all;
    for (size_t i = 0; i < shards; ++i) {
      const Samples samples = make_samples(count, i + 1);
      write_file(fs_, fmt::format("/data/train-{:03}.tar", i), tar_of(samples));
      all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
  }

  io::MemoryFileSystem fs_;
};

TEST_F(DatasetTest, ReadsTarsByPatternFolderAndName) {
  const Samples expected = write_tars(3, 20);
  for (const std::vector<std::string>& addresses :
       {std::vector<std::string>{"/data/train-*.tar"},
        {"/data"},
        {"tree:/data"},
        {"/data/train-{000..002}.tar"},
        {"/data/train-000.tar", "/data/train-001.tar", "/data/train-002.tar"}}) {
    const auto dataset = open(addresses);
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->format(), Format::kTar);
    EXPECT_EQ(dataset->samples(), 60);
    EXPECT_EQ(dataset->shards().size(), 3);
    EXPECT_TRUE(dataset->local());
    EXPECT_FALSE(dataset->sequential_only());
    EXPECT_EQ(dataset->shards()[1].name, "/data/train-001.tar");
    EXPECT_EQ(read_all(*dataset), expected);
  }
}

TEST_F(DatasetTest, AsyncReadsAnswerOnAnotherThread) {
  write_tars(2, 5);
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  const auto read = [&](uint32_t shard, uint64_t offset, size_t size) {
    std::vector<std::byte> into(size);
    std::promise<Result<void>> promise;
    const auto caller = std::this_thread::get_id();
    dataset->async_read(shard, offset, std::span(into), [&](Result<void> answer) {
      EXPECT_NE(std::this_thread::get_id(), caller);
      promise.set_value(std::move(answer));
    });
    return promise.get_future().get();
  };
  const uint64_t size = dataset->shards()[1].size;
  EXPECT_THAT(read(1, 0, 512), IsOk());
  EXPECT_THAT(read(1, size - 10, 10), IsOk());
  EXPECT_THAT(read(1, size - 10, 11), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(read(1, size + 1, 0), FailsWith(ErrorCode::kInvalid));
}

TEST_F(DatasetTest, AnIndexIsKeptBesideTheData) {
  const Samples expected = write_tars(3, 10);
  ASSERT_NE(open({"/data"}), nullptr);
  EXPECT_TRUE(is_there(fs_, "/data/.penstock-index"));
  EXPECT_FALSE(is_there(fs_, "/data/.penstock-index.lock"));
  EXPECT_FALSE(is_there(fs_, "/index"));
  // The second time nothing is looked at: the bytes of the shards may be anything.
  OpenProgress last;
  OpenOptions again = options();
  again.on_progress = [&](const OpenProgress& progress) { last = progress; };
  const auto dataset = open({"/data"}, again);
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(last.bytes, 0);
  EXPECT_EQ(read_all(*dataset), expected);
}

TEST_F(DatasetTest, IndexesThatDoNotFitInMemoryAreReadAgain) {
  const Samples expected = write_tars(5, 20);
  OpenOptions small = options();
  small.index_memory_bytes = 1;
  const auto dataset = open({"/data"}, small);
  ASSERT_NE(dataset, nullptr);
  for (int round = 0; round < 3; ++round) ASSERT_EQ(read_all(*dataset), expected);
}

TEST_F(DatasetTest, AChangedShardIsIndexedAgainAlone) {
  Samples expected = write_tars(3, 10);
  ASSERT_NE(open({"/data"}), nullptr);
  const Samples changed = make_samples(7, 99);
  const std::string tar = tar_of(changed);
  write_file(fs_, "/data/train-001.tar", tar);
  OpenProgress last;
  OpenOptions again = options();
  again.on_progress = [&](const OpenProgress& progress) { last = progress; };
  const auto dataset = open({"/data"}, again);
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(last.bytes, tar.size());
  expected.erase(expected.begin() + 10, expected.begin() + 20);
  expected.insert(expected.begin() + 10, changed.begin(), changed.end());
  EXPECT_EQ(read_all(*dataset), expected);
  // And that is kept too.
  EXPECT_EQ(read_all(*open({"/data"})), expected);
}

TEST_F(DatasetTest, AShardThatChangesLaterIsNotRead) {
  write_tars(3, 10);
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  write_file(fs_, "/data/train-002.tar", tar_of(make_samples(10, 3)));  // The same bytes.
  std::vector<std::byte> into(512);
  EXPECT_THAT(dataset->read_now(1, 0, into), IsOk());
  EXPECT_THAT(dataset->read_now(2, 0, into), FailsWith(ErrorCode::kChanged));
}

TEST_F(DatasetTest, EmptyShardsAndSamplesOfOneFile) {
  write_file(fs_, "/data/a.tar", TarWriter().finish());
  write_file(fs_, "/data/b.tar", "");
  write_file(fs_, "/data/c.tar", tar_of({{"x", {{"jpg", "1"}}}}));
  write_file(fs_, "/data/d.tar", "");
  write_file(fs_, "/data/e.tar", tar_of({{"y", {{"jpg", "2"}}}}));
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->samples(), 2);
  EXPECT_EQ(dataset->shard_of(0), 2);
  EXPECT_EQ(dataset->shard_of(1), 4);
  EXPECT_EQ(read_all(*dataset), (Samples{{"x", {{"jpg", "1"}}}, {"y", {{"jpg", "2"}}}}));
}

TEST_F(DatasetTest, NothingAtAllIsAnError) {
  write_file(fs_, "/data/a.tar", "");
  EXPECT_THAT(Dataset::open({"/data"}, options()), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(Dataset::open({"/data/b*.tar"}, options()), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(Dataset::open({"/nowhere"}, options()), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(Dataset::open({"/data/{a,b}.tar"}, options()), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(Dataset::open({}, options()), FailsWith(ErrorCode::kInvalid));
}

TEST_F(DatasetTest, ErrorsNameTheShard) {
  write_tars(2, 3);
  TarWriter writer;
  writer.add("a.jpg", "1");
  writer.add("a.JPG", "2");
  write_file(fs_, "/data/x.tar", writer.finish());
  const auto twice = Dataset::open({"/data"}, options());
  ASSERT_THAT(twice, FailsWith(ErrorCode::kCorrupt));
  EXPECT_NE(twice.error().detail.find("/data/x.tar"), std::string::npos);
  write_file(fs_, "/data/x.tar", writer.finish().substr(0, 700));
  const auto cut = Dataset::open({"/data"}, options());
  ASSERT_THAT(cut, FailsWith(ErrorCode::kCorrupt));
  EXPECT_NE(cut.error().detail.find("/data/x.tar"), std::string::npos);
}

TEST_F(DatasetTest, InterleavedKeysAreSeparateSamples) {
  TarWriter writer;
  writer.add("a.jpg", "1");
  writer.add("b.jpg", "2");
  writer.add("a.cls", "3");
  write_file(fs_, "/data/x.tar", writer.finish());
  EXPECT_EQ(read_all(*open({"/data"})),
            (Samples{{"a", {{"jpg", "1"}}}, {"b", {{"jpg", "2"}}}, {"a", {{"cls", "3"}}}}));
}

TEST_F(DatasetTest, OneShardTwiceIsTwiceItsSamples) {
  const Samples once = write_tars(1, 4);
  Samples expected = once;
  expected.insert(expected.end(), once.begin(), once.end());
  EXPECT_EQ(read_all(*open({"/data/train-000.tar", "/data/*.tar"})), expected);
}

TEST_F(DatasetTest, ReadsTfRecords) {
  std::string file;
  std::vector<std::string> data;
  for (size_t i = 0; i < 50; ++i) {
    data.push_back(random_text(i * 37, i));
    file += tf_record(data.back());
  }
  write_file(fs_, "/data/train.tfrecord-00000-of-00002", file);
  write_file(fs_, "/data/train.tfrecord-00001-of-00002", tf_record("last"));
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->format(), Format::kTfRecord);
  ASSERT_EQ(dataset->samples(), 51);
  const Samples samples = read_all(*dataset);
  for (size_t i = 0; i < 50; ++i) {
    const auto payload = verify_record(bytes_of(samples[i].second.at("tfrecord")));
    ASSERT_THAT(payload, IsOk());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(payload->data()), payload->size()),
              data[i]);
  }
}

TEST_F(DatasetTest, ClassFoldersAreThoseOfImageFolder) {
  write_file(fs_, "/data/dog/z.JPG", "1");
  write_file(fs_, "/data/dog/a/b.png", "2");
  write_file(fs_, "/data/dog/a-b/c.png", "3");
  write_file(fs_, "/data/dog/notes.txt", "-");
  write_file(fs_, "/data/cat/x.y.jpg", "4");
  write_file(fs_, "/data/cat/x.z.jpg", "5");
  write_file(fs_, "/data/README.md", "-");
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->format(), Format::kFolder);
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(dataset->shards()[1].label, 1);
  EXPECT_EQ(dataset->shards()[1].name, "/data/dog");
  EXPECT_EQ(read_all(*dataset), (Samples{{"x.y", {{"jpg", "4"}}},
                                         {"x.z", {{"jpg", "5"}}},
                                         {"z", {{"jpg", "1"}}},
                                         {"a/b", {{"png", "2"}}},
                                         {"a-b/c", {{"png", "3"}}}}));
  ASSERT_THAT(fs_.make_directory("/data/empty"), IsOk());
  const auto empty = Dataset::open({"/data"}, options());
  ASSERT_THAT(empty, FailsWith(ErrorCode::kInvalid));
  EXPECT_NE(empty.error().detail.find("empty"), std::string::npos);
}

TEST_F(DatasetTest, LooseFilesAreGroupedByKey) {
  write_file(fs_, "/data/b.jpg", "1");
  write_file(fs_, "/data/b.json", "2");
  write_file(fs_, "/data/a.jpg", "3");
  write_file(fs_, "/data/.hidden.jpg", "-");
  OpenOptions files = options();
  files.format = Format::kFiles;
  for (const OpenOptions& how : {options(), files}) {
    const auto dataset = open({"/data"}, how);
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->format(), Format::kFiles);
    EXPECT_EQ(read_all(*dataset),
              (Samples{{"a", {{"jpg", "3"}}}, {"b", {{"jpg", "1"}, {"json", "2"}}}}));
  }
}

TEST_F(DatasetTest, MixedKindsAreRefusedUnlessOneIsNamed) {
  const Samples expected = write_tars(1, 3);
  write_file(fs_, "/data/x.tfrecord", tf_record("x"));
  EXPECT_THAT(Dataset::open({"/data"}, options()), FailsWith(ErrorCode::kInvalid));
  OpenOptions tar = options();
  tar.format = Format::kTar;
  EXPECT_EQ(read_all(*open({"/data"}, tar)), expected);
}

TEST_F(DatasetTest, CompressedTarsAreReadInOrder) {
  const Samples samples = make_samples(40, 5, 20'000);
  const std::string tar = tar_of(samples);
  const std::string half = tar.substr(0, tar.size() / 3);
  const std::string rest = tar.substr(half.size());
  write_file(fs_, "/data/a.tar.gz", gzip(half) + gzip(rest));
  write_file(fs_, "/data/b.tar", zstd(half) + zstd(rest));  // Told by its bytes.
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  EXPECT_TRUE(dataset->sequential_only());
  ASSERT_EQ(dataset->samples(), 80);
  std::vector<std::byte> into(10);
  EXPECT_THAT(dataset->read_now(0, 0, into), FailsWith(ErrorCode::kInvalid));
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const auto index = dataset->shard_index(shard);
    const auto reader = dataset->read_in_order(shard);
    ASSERT_THAT(index, IsOk());
    ASSERT_THAT(reader, IsOk());
    for (uint32_t i = 0; i < 40; ++i) {
      for (const Member& member : (*index)->members(i)) {
        const uint64_t gap = member.offset - (*reader)->offset();
        ASSERT_EQ(*(*reader)->skip(gap), gap);
        std::string data(member.size, '\0');
        ASSERT_EQ(*(*reader)->read(std::as_writable_bytes(std::span(data))), data.size());
        ASSERT_EQ(data, samples[i].second.at((*index)->fields()[member.field]));
      }
    }
  }
}

TEST_F(DatasetTest, DamagedCompressedTarsAreNoticed) {
  const std::string tar = tar_of(make_samples(20, 5));
  for (const bool use_gzip : {true, false}) {
    const std::string whole = use_gzip ? gzip(tar) : zstd(tar);
    for (size_t size = 20; size < whole.size() - 200; size += whole.size() / 17) {
      write_file(fs_, "/data/a.tar.gz", whole.substr(0, size));
      ASSERT_THAT(Dataset::open({"/data"}, options()), FailsWith(ErrorCode::kCorrupt)) << size;
    }
  }
}

TEST_F(DatasetTest, OtherStoresAreReadThroughTheirInterface) {
  const Samples expected = make_samples(30, 1, 300'000);
  ASSERT_THAT(fs_.make_directory("/objects"), IsOk());
  {
    auto store = store::open_store("file:/objects", {.file_system = &fs_});
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->put("train/a.tar", bytes_of(tar_of(expected))), IsOk());
  }
  for (int round = 0; round < 2; ++round) {
    const auto dataset = open({"file:/objects"});
    ASSERT_NE(dataset, nullptr);
    EXPECT_FALSE(dataset->local());
    ASSERT_EQ(dataset->samples(), 30);
    for (uint64_t i = 0; i < 30; ++i) {
      const auto place = dataset->place(i);
      ASSERT_THAT(place, IsOk());
      for (const Member& member : place->members) {
        std::string data(member.size, '\0');
        std::promise<Result<void>> promise;
        dataset->async_read(0, member.offset, std::as_writable_bytes(std::span(data)),
                            [&](Result<void> answer) { promise.set_value(std::move(answer)); });
        ASSERT_THAT(promise.get_future().get(), IsOk());
        ASSERT_EQ(data, expected[i].second.at(place->index->fields()[member.field]));
      }
    }
  }
  EXPECT_TRUE(is_there(fs_, "/index"));  // Where it cannot lie beside the data.
}

TEST_F(DatasetTest, ACacheIsInFrontOfWhatIsFar) {
  const std::string tar = tar_of(make_samples(30, 1, 100'000));
  for (const char* folder : {"/objects", "/drive"}) ASSERT_THAT(fs_.make_directory(folder), IsOk());
  {
    auto store = store::open_store("file:/objects", {.file_system = &fs_});
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->put("a.tar", bytes_of(tar)), IsOk());
  }
  FarStore far("bucket");
  far.put("a.tar", tar);
  cache::CacheOptions cache_options;
  cache_options.directories = {"/drive/cache"};
  cache_options.quota = {.bytes = 100 * kMiB};
  cache_options.free_floor = {.bytes = 0};
  cache_options.file_system = &fs_;
  auto cache = cache::Cache::open(cache_options);
  ASSERT_THAT(cache, IsOk());
  OpenOptions cached = options();
  cached.cache = *cache;
  {
    const auto dataset = open({"far://bucket"}, cached);
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->cache(), *cache);
    EXPECT_EQ(dataset->far_bytes(), 0);
    std::string all(tar.size(), '\0');
    std::promise<Result<void>> promise;
    dataset->async_read(0, 0, std::as_writable_bytes(std::span(all)),
                        [&](Result<void> answer) { promise.set_value(std::move(answer)); });
    ASSERT_THAT(promise.get_future().get(), IsOk());
    EXPECT_EQ(all, tar);
    EXPECT_GE((*cache)->stats().hits + (*cache)->stats().memory_hits, 1);
    EXPECT_EQ((*cache)->stats().source_bytes, tar.size());  // Once, by whoever was first.
    EXPECT_NE(dataset->make_stager(dataset->shards()[0].store, {}), nullptr);
    EXPECT_FALSE(dataset->shards()[0].version.empty());
  }
  // What lies on this machine needs none.
  write_tars(1, 3);
  for (const char* address : {"/data", "file:/objects"}) {
    const auto near = open({address}, cached);
    ASSERT_NE(near, nullptr);
    EXPECT_EQ(near->make_stager(0, {}), nullptr) << address;
    EXPECT_EQ(near->far_bytes(), 0) << address;
  }
}

TEST_F(DatasetTest, EverySchemeNamesShardsAsS3Does) {
  FarStore far("bucket");
  Samples expected;
  for (size_t i = 0; i < 3; ++i) {
    const Samples samples = make_samples(10, i + 1);
    far.put(fmt::format("train/a-{}.tar", i), tar_of(samples));
    expected.insert(expected.end(), samples.begin(), samples.end());
  }
  far.put(
      "train/list.json",
      R"({"__kind__":"wids-shard-index-v1","shardlist":[{"url":"a-0.tar","nsamples":10},)"
      R"({"url":"a-1.tar","nsamples":10},{"url":"far://bucket/train/a-2.tar","nsamples":10}]})");
  for (const char* address : {"far://bucket", "far://bucket/train/", "far://bucket/train/a-*.tar",
                              "far://bucket/train/a-{0..2}.tar", "far://bucket/train/list.json"}) {
    const auto dataset = open({address});
    ASSERT_NE(dataset, nullptr) << address;
    ASSERT_EQ(dataset->samples(), 30) << address;
    EXPECT_EQ(dataset->shards()[1].name, "far://bucket/train/a-1.tar");
    EXPECT_EQ(dataset->far_bytes(), dataset->bytes());
    EXPECT_EQ(dataset->shard_index(0).value()->key(0), expected[0].first);
  }
  EXPECT_TRUE(is_there(fs_, "/index"));
  for (const char* wrong : {"far://bucket/none*", "far://bucket/train/a-7.tar", "far://none/a"}) {
    EXPECT_THAT(Dataset::open({wrong}, options()), FailsWith(ErrorCode::kNotFound)) << wrong;
  }
  for (const char* wrong : {"far://buck*/a", "far://", "other://bucket"}) {
    EXPECT_THAT(Dataset::open({wrong}, options()), FailsWith(ErrorCode::kInvalid)) << wrong;
  }
}

TEST_F(DatasetTest, EverySchemeHasClassFolders) {
  FarStore far("bucket");
  for (const char* key : {"set/ant/1.jpg", "set/bee/1.jpg", "set/bee/2.jpg", "other/x/1.jpg"}) {
    far.put(key, key);
  }
  const auto dataset = open({"far://bucket/set"});
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->format(), Format::kFolder);
  EXPECT_EQ(dataset->samples(), 3);
  EXPECT_THAT(dataset->classes(), ::testing::ElementsAre("ant", "bee"));
}

TEST_F(DatasetTest, AChangedObjectIsNotRead) {
  ASSERT_THAT(fs_.make_directory("/objects"), IsOk());
  auto store = store::open_store("file:/objects", {.file_system = &fs_});
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT((*store)->put("a.tar", bytes_of(tar_of(make_samples(3, 1)))), IsOk());
  const auto dataset = open({"file:/objects"});
  ASSERT_NE(dataset, nullptr);
  ASSERT_THAT((*store)->put("a.tar", bytes_of(tar_of(make_samples(3, 1)))), IsOk());
  std::vector<std::byte> into(512);
  std::promise<Result<void>> promise;
  dataset->async_read(0, 0, std::span(into),
                      [&](Result<void> answer) { promise.set_value(std::move(answer)); });
  EXPECT_THAT(promise.get_future().get(), FailsWith(ErrorCode::kChanged));
}

TEST_F(DatasetTest, OpeningCanBeCancelled) {
  write_tars(2, 5);
  std::stop_source stop;
  OpenOptions cancelled = options();
  cancelled.cancel = stop.get_token();
  stop.request_stop();
  EXPECT_THAT(Dataset::open({"/data"}, cancelled), FailsWith(ErrorCode::kCancelled));
}

TEST_F(DatasetTest, ProgressGoesUpToAllOfIt) {
  for (int i = 0; i < 100; ++i) {  // More folders than are locked at once.
    write_file(fs_, fmt::format("/data/{}/x.tar", i), tar_of(make_samples(2, i)));
  }
  std::vector<OpenProgress> told;
  OpenOptions telling = options();
  telling.on_progress = [&](const OpenProgress& progress) { told.push_back(progress); };
  const auto dataset = open({"/data"}, telling);
  ASSERT_NE(dataset, nullptr);
  ASSERT_FALSE(told.empty());
  uint64_t before = 0;
  for (const OpenProgress& progress : told) {
    EXPECT_GE(progress.bytes_done, before);
    before = progress.bytes_done;
    EXPECT_EQ(progress.bytes, dataset->bytes());
    EXPECT_EQ(progress.shards, 100);
  }
  EXPECT_EQ(told.back().bytes_done, dataset->bytes());
  EXPECT_EQ(told.back().shards_indexed, 100);
}

TEST_F(DatasetTest, FoldersBelowHaveTheirOwnIndexes) {
  const Samples a = make_samples(5, 1);
  const Samples b = make_samples(6, 2);
  write_file(fs_, "/data/x/a.tar", tar_of(a));
  write_file(fs_, "/data/y/b.tar", tar_of(b));
  Samples expected = a;
  expected.insert(expected.end(), b.begin(), b.end());
  for (int round = 0; round < 2; ++round) EXPECT_EQ(read_all(*open({"/data"})), expected);
  EXPECT_TRUE(is_there(fs_, "/data/x/.penstock-index"));
  EXPECT_TRUE(is_there(fs_, "/data/y/.penstock-index"));
  EXPECT_EQ(read_all(*open({"/data/y"})), b);
}

TEST_F(DatasetTest, EntriesOfFilesThatAreGoneAreLeftOut) {
  write_tars(3, 5);
  ASSERT_NE(open({"/data"}), nullptr);
  ASSERT_THAT(fs_.remove("/data/train-001.tar"), IsOk());
  write_file(fs_, "/data/new.tar", tar_of(make_samples(2, 9)));
  ASSERT_NE(open({"/data/new.tar"}), nullptr);  // Only this one is looked at, the others stay.
  const std::string index = *io::read_file(fs_, "/data/.penstock-index", kGiB);
  EXPECT_EQ(index.find("train-001.tar"), std::string::npos);
  EXPECT_NE(index.find("train-002.tar"), std::string::npos);
  EXPECT_NE(index.find("new.tar"), std::string::npos);
}

TEST_F(DatasetTest, ManyBuildersAtOnceMakeOneIndex) {
  const Samples expected = write_tars(8, 50);
  std::latch begin(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      begin.arrive_and_wait();
      const auto dataset = open({"/data"});
      ASSERT_NE(dataset, nullptr);
      EXPECT_EQ(read_all(*dataset), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DatasetTest, WaitingForAnotherBuilderCanBeCancelled) {
  write_tars(1, 5);
  const auto lock = fs_.try_lock("/data/.penstock-index.lock");
  ASSERT_THAT(lock, IsOk());
  std::stop_source stop;
  OpenOptions waiting = options();
  waiting.cancel = stop.get_token();
  auto opened = std::async([&] { return Dataset::open({"/data"}, waiting).ok(); });
  EXPECT_EQ(opened.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_FALSE(opened.get());
}

TEST_F(DatasetTest, AMemberOfMoreThan4GiB) {
  const uint64_t size = 5 * kGiB + 123;
  TarWriter writer(TarStyle::kGnu);
  writer.add("a.txt", "small");
  writer.block("a.bin", size, '0', /*base_256=*/true);
  const std::string front = writer.bare();
  TarWriter next;
  next.add("b.txt", "behind");
  write_file(fs_, "/data/x.tar", front);
  {
    auto file = fs_.open("/data/x.tar", {.access = io::Access::kReadWrite});
    const uint64_t end = front.size() + (size + 511) / 512 * 512;
    ASSERT_THAT((*file)->write(end, bytes_of(next.finish())), IsOk());
  }
  const auto dataset = open({"/data"});
  ASSERT_NE(dataset, nullptr);
  ASSERT_EQ(dataset->samples(), 2);
  EXPECT_EQ(dataset->place(0)->members[1].size, size);
  const Member behind = dataset->place(1)->members[0];
  std::string data(behind.size, '\0');
  ASSERT_THAT(dataset->read_now(0, behind.offset, std::as_writable_bytes(std::span(data))), IsOk());
  EXPECT_EQ(data, "behind");
}

}  // namespace
}  // namespace penstock::data
