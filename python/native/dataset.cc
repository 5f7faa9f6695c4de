#include "native/dataset.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <condition_variable>
#include <mutex>

#include "native/errors.h"
#include "native/open_aside.h"
#include "penstock/data.h"

namespace nb = nanobind;

namespace penstock::python {

namespace {

using data::Dataset;

nb::object text(std::string_view bytes) {
  return nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

// Memory of a bytes object that nobody has seen yet.
std::span<std::byte> memory_of(const nb::object& bytes) {
  return {reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())),
          static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

// A field of a sample on its way into a bytes object.
struct Fetch {
  size_t sample = 0;  // In the order asked for.
  size_t member = 0;
  nb::object bytes;
};

class Reads {
 public:
  Reads(Dataset& dataset, const std::vector<uint64_t>& numbers) : dataset_(dataset) {
    for (const uint64_t number : numbers) places_.push_back(unwrap(dataset.place(number)));
    for (size_t i = 0; i < places_.size(); ++i) {
      for (size_t member = 0; member < places_[i].members.size(); ++member) {
        const auto size = static_cast<Py_ssize_t>(places_[i].members[member].size);
        fetches_.push_back({i, member, nb::steal(PyBytes_FromStringAndSize(nullptr, size))});
      }
    }
  }

  void run() {
    std::vector<std::span<std::byte>> targets;
    for (const Fetch& fetch : fetches_) targets.push_back(memory_of(fetch.bytes));
    const nb::gil_scoped_release unlocked;
    left_ = fetches_.size();
    for (size_t i = 0; i < fetches_.size(); ++i) begin(fetches_[i], targets[i]);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
  }

  nb::list samples() {
    unwrap(outcome_);
    nb::list made;
    for (const data::SamplePlace& place : places_) {
      nb::dict sample;
      const data::Shard& shard = dataset_.shards()[place.shard];
      sample["__key__"] = text(place.index->key(place.sample));
      sample["__url__"] = text(shard.name);
      if (shard.label >= 0) sample["cls"] = shard.label;
      made.append(sample);
    }
    for (const Fetch& fetch : fetches_) {
      const data::SamplePlace& place = places_[fetch.sample];
      const std::string& name = place.index->fields()[place.members[fetch.member].field];
      nb::object value = fetch.bytes;
      if (dataset_.format() == data::Format::kTfRecord) {
        const auto record = unwrap(data::verify_record(memory_of(fetch.bytes)));
        value = nb::bytes(record.data(), record.size());
      }
      nb::cast<nb::dict>(made[fetch.sample])[name.c_str()] = value;
    }
    return made;
  }

 private:
  void begin(const Fetch& fetch, std::span<std::byte> into) {
    const data::SamplePlace& place = places_[fetch.sample];
    if (dataset_.shards()[place.shard].loose) {
      const Result<uint64_t> size = dataset_.read_loose(place, fetch.member, into);
      if (!size.ok()) return done(size.error());
      if (*size == into.size()) return done({});
      return done(
          make_error(ErrorCode::kChanged, "a file has another size than when it was indexed"));
    }
    dataset_.async_read(place.shard, place.members[fetch.member].offset, io::MemorySlice(into),
                        [this](const Result<void>& outcome) { done(outcome); });
  }

  void done(const Result<void>& outcome) {
    const std::lock_guard lock(mutex_);
    if (!outcome.ok() && outcome_.ok()) outcome_ = outcome;
    if (--left_ == 0) changed_.notify_all();
  }

  Dataset& dataset_;
  std::vector<data::SamplePlace> places_;
  std::vector<Fetch> fetches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t left_ = 0;
  Result<void> outcome_;
};

std::shared_ptr<Dataset> open_dataset(const std::vector<std::string>& addresses,
                                      const std::string& format,
                                      const std::vector<std::string>& cache_dirs,
                                      const std::string& cache_quota, const std::string& index_dir,
                                      const nb::object& on_progress) {
  data::OpenOptions options;
  options.format = unwrap(data::parse_format(format));
  options.index_dir = index_dir;
  return held(open_aside<std::unique_ptr<Dataset>>(
      options, cache_dirs, cache_quota, on_progress,
      [&](const data::OpenOptions& ready) { return Dataset::open(addresses, ready); }));
}

}  // namespace

void bind_dataset(nb::module_& module) {
  nb::class_<Dataset>(module, "Dataset")
      .def_static("open", &open_dataset, nb::arg("addresses"), nb::arg("format"),
                  nb::arg("cache_dirs"), nb::arg("cache_quota"), nb::arg("index_dir"),
                  nb::arg("on_progress").none())
      .def_prop_ro("samples", &Dataset::samples)
      .def_prop_ro("classes",
                   [](const Dataset& self) {
                     nb::list names;
                     for (const std::string& name : self.classes()) names.append(text(name));
                     return names;
                   })
      .def_prop_ro("shards",
                   [](const Dataset& self) {
                     nb::list shards;
                     for (const data::Shard& shard : self.shards())
                       shards.append(nb::make_tuple(text(shard.name), shard.samples));
                     return shards;
                   })
      .def("get", [](Dataset& self, const std::vector<uint64_t>& numbers) {
        Reads reads(self, numbers);
        reads.run();
        return reads.samples();
      });
}

}  // namespace penstock::python
