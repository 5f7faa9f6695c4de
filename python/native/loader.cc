#include "native/loader.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "loader/explain.h"
#include "native/batch.h"
#include "native/errors.h"
#include "native/open_aside.h"
#include "native/waiting.h"
#include "penstock/loader.h"

namespace nb = nanobind;

namespace penstock::python {

namespace {

using loader::Field;
using loader::FieldKind;
using loader::Loader;
using loader::LoaderOptions;

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void bind_image_spec(nb::module_& module) {
  using decode::ImageSpec;
  nb::class_<ImageSpec>(module, "ImageSpec")
      .def(nb::init<>())
      .def_rw("height", &ImageSpec::height)
      .def_rw("width", &ImageSpec::width)
      .def_rw("resize", &ImageSpec::resize)
      .def_rw("scale", &ImageSpec::scale)
      .def_rw("ratio", &ImageSpec::ratio)
      .def_rw("flip", &ImageSpec::flip)
      .def_rw("brightness", &ImageSpec::brightness)
      .def_rw("contrast", &ImageSpec::contrast)
      .def_rw("saturation", &ImageSpec::saturation)
      .def_rw("mean", &ImageSpec::mean)
      .def_rw("std", &ImageSpec::std)
      .def_rw("channels", &ImageSpec::channels)
      .def_rw("fast_scale", &ImageSpec::fast_scale)
      .def_prop_rw(
          "crop", [](const ImageSpec& self) { return static_cast<int>(self.crop); },
          [](ImageSpec& self, int crop) { self.crop = static_cast<decode::Crop>(crop); })
      .def_prop_rw(
          "layout",
          [](const ImageSpec& self) { return self.layout == decode::Layout::kChw ? "CHW" : "HWC"; },
          [](ImageSpec& self, const std::string& layout) {
            if (layout != "CHW" && layout != "HWC") throw nb::value_error("layout: 'CHW' or 'HWC'");
            self.layout = layout == "CHW" ? decode::Layout::kChw : decode::Layout::kHwc;
          })
      .def_prop_rw(
          "dtype",
          [](const ImageSpec& self) { return std::string(decode::dtype_name(self.dtype)); },
          [](ImageSpec& self, const std::string& name) {
            self.dtype = unwrap(decode::parse_dtype(name));
          });
}

void bind_field(nb::module_& module) {
  nb::class_<Field>(module, "Field")
      .def(nb::init<>())
      .def_rw("name", &Field::name)
      .def_rw("source", &Field::from)
      .def_rw("path", &Field::path)
      .def_rw("image", &Field::image)
      .def_rw("shape", &Field::shape)
      .def_prop_rw(
          "kind", [](const Field& self) { return static_cast<int>(self.kind); },
          [](Field& self, int kind) { self.kind = static_cast<FieldKind>(kind); })
      .def_prop_rw(
          "dtype", [](const Field& self) { return std::string(decode::dtype_name(self.dtype)); },
          [](Field& self, const std::string& name) {
            self.dtype = unwrap(decode::parse_dtype(name));
          });
}

struct Settings {
  LoaderOptions options;
  std::vector<std::string> cache_dirs;
  std::string cache_quota;
};

void bind_settings(nb::module_& module) {
  nb::class_<Settings>(module, "Settings")
      .def(nb::init<>())
      .def("add_source",
           [](Settings& self, std::vector<std::string> addresses, double weight,
              uint32_t seq_length) {
             self.options.sources.push_back({std::move(addresses), weight, seq_length});
           })
      .def("add_field",
           [](Settings& self, const Field& field) { self.options.fields.push_back(field); })
      .def("set_sizes",
           [](Settings& self, uint32_t batch_size, const std::string& memory,
              const std::string& window, uint32_t threads, bool tune, uint32_t batches_ahead) {
             self.options.batch_size = batch_size;
             self.options.memory_bytes = unwrap(parse_size(memory));
             self.options.window_bytes = unwrap(parse_size(window));
             self.options.threads = threads;
             self.options.tune = tune;
             self.options.batches_ahead = batches_ahead;
           })
      .def("set_order",
           [](Settings& self, const std::string& shuffle, uint64_t seed, uint32_t rank,
              uint32_t world_size, const std::string& last, uint32_t streams,
              uint64_t epoch_samples) {
             self.options.shuffle = unwrap(loader::parse_shuffle(shuffle));
             self.options.seed = seed;
             self.options.rank = rank;
             self.options.world_size = world_size;
             self.options.last = unwrap(loader::parse_last(last));
             self.options.streams = streams;
             self.options.epoch_samples = epoch_samples;
           })
      .def("set_reading",
           [](Settings& self, int page_cache, bool skip_errors, const std::string& format,
              const std::string& index_dir) {
             self.options.page_cache = static_cast<loader::PageCache>(page_cache);
             self.options.on_error = skip_errors ? loader::OnError::kSkip : loader::OnError::kRaise;
             self.options.open.format = unwrap(data::parse_format(format));
             self.options.open.index_dir = index_dir;
           })
      .def("set_cache",
           [](Settings& self, std::vector<std::string> directories, const std::string& quota) {
             self.cache_dirs = std::move(directories);
             self.cache_quota = quota;
           });
}

std::shared_ptr<Loader> open_loader(const Settings& settings, const nb::object& on_progress) {
  return held(open_aside<std::unique_ptr<Loader>>(settings.options.open, settings.cache_dirs,
                                                  settings.cache_quota, on_progress,
                                                  [&](const data::OpenOptions& ready) {
                                                    LoaderOptions options = settings.options;
                                                    options.open = ready;
                                                    return Loader::open(options);
                                                  }));
}

nb::dict report_dict(const loader::Report& report) {
  nb::dict dict;
  dict["batches"] = report.batches;
  dict["samples"] = report.samples;
  dict["bytes_read"] = report.bytes_read;
  dict["reads"] = report.reads;
  dict["skipped"] = report.skipped;
  nb::list skipped;
  for (const loader::Skipped& one : report.skipped_list) {
    skipped.append(nb::make_tuple(one.shard, one.key, one.reason));
  }
  dict["skipped_list"] = skipped;
  dict["elapsed"] = seconds(report.elapsed);
  dict["first_batch"] = seconds(report.first_batch);
  dict["threads"] = report.threads;
  dict["read_busy"] = seconds(report.read_busy);
  dict["decode_busy"] = seconds(report.decode_busy);
  dict["worker_wait"] = seconds(report.worker_wait);
  dict["storage_busy"] = seconds(report.storage_busy);
  dict["plan_busy"] = seconds(report.plan_busy);
  dict["memory_wait"] = seconds(report.memory_wait);
  dict["ahead_wait"] = seconds(report.ahead_wait);
  dict["next_total"] = seconds(report.next_total);
  dict["next_p50"] = seconds(report.next_p50);
  dict["next_p99"] = seconds(report.next_p99);
  dict["next_max"] = seconds(report.next_max);
  dict["away_total"] = seconds(report.away_total);
  dict["ready_mean"] = report.ready_mean;
  dict["memory_peak_bytes"] = report.memory_peak_bytes;
  dict["page_cache"] = report.page_cache;
  dict["tuned"] = report.tuned;
  if (report.cache) {
    nb::dict cache;
    cache["hits"] = report.cache->hits + report.cache->memory_hits;
    cache["misses"] = report.cache->misses;
    cache["hit_bytes"] = report.cache->hit_bytes + report.cache->memory_hit_bytes;
    cache["miss_bytes"] = report.cache->miss_bytes;
    cache["source_bytes"] = report.cache->source_bytes;
    dict["cache"] = cache;
  }
  if (report.staged) {
    nb::dict staged;
    staged["bytes"] = report.staged->bytes;
    staged["failed_bytes"] = report.staged->failed_bytes;
    staged["ahead_bytes"] = report.staged->ahead_bytes;
    dict["staged"] = staged;
  }
  return dict;
}

void bind_loader_class(nb::module_& module) {
  nb::class_<Loader>(module, "Loader")
      .def_static("open", &open_loader, nb::arg("settings"), nb::arg("on_progress").none())
      .def("next",
           [](Loader& self) -> nb::object {
             auto batch = unwrap(wait_for_signals<std::shared_ptr<const loader::Batch>>(
                 [&](Deadline deadline) { return self.next(deadline); }));
             if (batch == nullptr) return nb::none();
             return nb::cast(PyBatch{std::move(batch)});
           })
      .def_prop_ro("samples", &Loader::samples)
      .def_prop_ro("steps", &Loader::steps)
      .def_prop_ro("steps_left", &Loader::steps_left)
      .def_prop_ro("epoch", &Loader::epoch)
      .def("set_epoch",
           [](Loader& self, uint64_t epoch) {
             unwrap(unlocked([&] { return self.set_epoch(epoch); }));
           })
      .def("state", [](const Loader& self) { return self.state().to_text(); })
      .def("load_state",
           [](Loader& self, const std::string& text) {
             const loader::State state = unwrap(loader::State::from_text(text));
             unwrap(unlocked([&] { return self.load_state(state); }));
           })
      .def("report",
           [](const Loader& self, std::optional<double> step, uint32_t batch_size) {
             const loader::Report report = self.report();
             std::optional<Nanoseconds> time;
             if (step) time = Nanoseconds(static_cast<int64_t>(*step * 1e9));
             const loader::Explanation explanation = loader::explain(report, time, batch_size);
             nb::dict dict = report_dict(report);
             dict["limit"] = std::string(loader::limit_name(explanation.limit));
             dict["verdict"] = explanation.verdict;
             dict["advice"] = explanation.advice;
             dict["samples_per_second"] = explanation.samples_per_second;
             dict["idle_share"] = explanation.idle_share;
             return nb::make_tuple(dict, loader::to_text(report, explanation));
           })
      .def("reset_report", &Loader::reset_report)
      .def("warnings",
           [](const Loader& self) {
             return std::vector<std::string>(self.warnings().begin(), self.warnings().end());
           })
      .def("classes", [](const Loader& self) {
        nb::list all;
        for (const auto& dataset : self.datasets()) {
          for (const std::string& name : dataset->classes()) all.append(nb::str(name.c_str()));
        }
        return all;
      });
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_image_spec(module);
  bind_field(module);
  bind_settings(module);
  bind_loader_class(module);
}

}  // namespace penstock::python
