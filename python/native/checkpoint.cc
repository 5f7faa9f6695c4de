// Saves and loads by addresses: penstock.checkpoint knows what lies there.
#include "native/checkpoint.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "checkpoint/open_source.h"
#include "checkpoint/replica.h"
#include "native/errors.h"
#include "native/flat.h"
#include "native/waiting.h"
#include "penstock/checkpoint.h"

namespace nb = nanobind;

namespace penstock::python {

namespace {

using checkpoint::Checkpointer;
using checkpoint::Reader;
using checkpoint::Save;

io::FileSystem& file_system() {
  return *unwrap(io::process_file_system());
}

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

nb::dict report_dict(const Save& save) {
  const checkpoint::SaveReport report = save.report();
  nb::dict dict;
  dict["step"] = report.step;
  dict["skipped"] = report.skipped;
  dict["bytes"] = report.bytes;
  dict["linked_bytes"] = report.linked_bytes;
  dict["tensors"] = report.tensors;
  dict["files"] = report.files;
  dict["stall"] = seconds(report.stall);
  dict["waited"] = seconds(report.waited);
  dict["prepared"] = seconds(report.prepared);
  dict["copied"] = seconds(report.copied);
  dict["durable"] = seconds(report.durable);
  dict["replicated"] = seconds(report.replicated);
  dict["rewritten"] = report.rewritten;
  return dict;
}

// Options by name: a wrong one is a mistake of penstock.checkpoint, not of its users.
template <typename T>
T option(const nb::dict& options, const char* name, const T& otherwise) {
  return options.contains(name) ? nb::cast<T>(options[name]) : otherwise;
}

checkpoint::CheckpointerOptions options_of(const std::string& directory, const nb::dict& given) {
  checkpoint::CheckpointerOptions options;
  options.directory = directory;
  options.ranks.rank = option<uint32_t>(given, "rank", 0);
  options.ranks.count = option<uint32_t>(given, "ranks", 1);
  options.ranks.run = option<std::string>(given, "run", "");
  const auto timeout = std::chrono::duration<double>(option<double>(given, "rank_timeout", 600));
  options.ranks.timeout = std::chrono::duration_cast<Nanoseconds>(timeout);
  options.arena_bytes = option<uint64_t>(given, "arena_bytes", 0);
  options.when_busy = static_cast<checkpoint::WhenBusy>(option<int>(given, "when_busy", 0));
  options.keep = {option<uint64_t>(given, "keep_last", 0),
                  option<uint64_t>(given, "keep_every", 0)};
  options.max_bandwidth = option<uint64_t>(given, "max_bandwidth", 0);
  options.copy_threads = option<uint32_t>(given, "threads", 0);
  using TierFacts = std::tuple<std::string, bool, uint64_t, uint64_t>;
  for (auto& [address, own, last, every] : option<std::vector<TierFacts>>(given, "replicate", {})) {
    checkpoint::Tier& tier = options.replicate.emplace_back();
    tier.address = std::move(address);
    if (own) tier.keep = {last, every};
  }
  options.replicate_bandwidth = option<uint64_t>(given, "replicate_bandwidth", 0);
  options.incremental = option<bool>(given, "incremental", false);
  options.sha256_sums = option<bool>(given, "sha256sums", false);
  options.program = option<std::string>(given, "program", "penstock");
  return options;
}

std::shared_ptr<Checkpointer> open(const std::string& directory, const nb::dict& given) {
  const checkpoint::CheckpointerOptions options = options_of(directory, given);
  return held(unwrap(unlocked([&] { return Checkpointer::open(options); })));
}

checkpoint::SaveOptions save_options(std::string name, bool replace, std::string attempt) {
  return {.name = std::move(name), .replace = replace, .attempt = std::move(attempt)};
}

std::shared_ptr<Save> save(Checkpointer& self, uint64_t step, Flat& flat,
                           std::map<std::string, std::string> metadata, std::string name,
                           bool replace, std::string attempt) {
  flat.state().metadata = std::move(metadata);
  checkpoint::SaveOptions options = save_options(std::move(name), replace, std::move(attempt));
  bool interrupted = false;
  options.give_up = [&] {
    const nb::gil_scoped_acquire locked;
    return interrupted = PyErr_CheckSignals() != 0;
  };
  auto saved = unlocked([&] { return self.save(step, std::move(flat.state()), options); });
  if (interrupted) throw nb::python_error();
  return unwrap(std::move(saved));
}

void commit(Checkpointer& self, uint64_t step, std::string name, bool replace, std::string attempt,
            const std::vector<std::string>& parts, const std::string& tree,
            const std::map<std::string, std::string>& metadata) {
  const auto options = save_options(std::move(name), replace, std::move(attempt));
  unwrap(unlocked([&] { return self.commit(step, options, parts, tree, metadata); }));
}

using Milestone = Result<void> (Save::*)(Deadline);

// Ctrl-C ends the wait, not the save.
template <Milestone kReached>
void wait_until(Save& self, std::optional<double> timeout) {
  const Deadline end = timeout ? deadline_in(std::chrono::duration_cast<Nanoseconds>(
                                     std::chrono::duration<double>(*timeout)))
                               : kNoDeadline;
  while (true) {
    const Deadline look = std::min(end, deadline_in(kLookEvery));
    const Result<void> done = unlocked([&] { return (self.*kReached)(look); });
    const bool looked = !done.ok() && done.error().code == ErrorCode::kTimeout;
    if (!looked || std::chrono::steady_clock::now() >= end) return unwrap(done);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void load(Reader& self, const std::vector<size_t>& tensors,
          const std::vector<uintptr_t>& addresses) {
  std::vector<checkpoint::LoadTarget> wanted;
  wanted.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    wanted.push_back(
        {tensors[i],
         {reinterpret_cast<std::byte*>(addresses[i]), self.tensors().at(tensors[i]).bytes}});
  }
  unwrap(unlocked([&] { return self.load(wanted); }));
}

nb::list tensor_list(const Reader& self) {
  nb::list list;
  for (const checkpoint::TensorInfo& tensor : self.tensors()) {
    list.append(nb::make_tuple(tensor.name, tensor.dtype, tensor.shape, tensor.bytes, tensor.file,
                               tensor.offset, tensor.rank));
  }
  return list;
}

std::vector<std::string> verify(Reader& self) {
  const std::vector<Error> errors = unlocked([&] { return self.verify(); });
  std::vector<std::string> texts;
  for (const Error& error : errors) texts.push_back(error.detail);
  return texts;
}

// (step, what is wrong with it or None), newest first.
nb::list list_checkpoints(const std::string& directory) {
  io::FileSystem& fs = file_system();
  const auto found = unlocked([&] { return checkpoint::list_checkpoints(fs, directory); });
  nb::list list;
  for (const checkpoint::Found& one : unwrap(found)) {
    const nb::object damage = one.damage ? nb::cast(one.damage->detail) : nb::none();
    list.append(nb::make_tuple(one.step, damage));
  }
  return list;
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  nb::class_<Save>(module, "Save")
      .def("durable", &wait_until<&Save::durable>, nb::arg("timeout").none())
      .def("replicated", &wait_until<&Save::replicated>, nb::arg("timeout").none())
      .def_prop_ro("done", &Save::done)
      .def_prop_ro("part", &Save::part)
      .def("report", &report_dict);
  nb::class_<Checkpointer>(module, "Checkpointer")
      .def("save", &save)
      .def("refuse",
           [](Checkpointer& self, const std::string& why) {
             unwrap(unlocked([&] { return self.refuse(why); }));
           })
      .def("commit", &commit)
      .def("drain", [](Checkpointer& self) { unwrap(unlocked([&] { return self.drain(); })); })
      .def("remove",
           [](Checkpointer& self, const std::string& name) {
             unwrap(unlocked([&] { return self.remove(name); }));
           })
      .def("exchange",
           [](Checkpointer& self, const std::string& topic, const std::string& mine) {
             return unwrap(unlocked([&] { return self.exchange(topic, mine); }));
           })
      .def("close", [](Checkpointer& self) { unwrap(unlocked([&] { return self.close(); })); });
  nb::class_<Reader>(module, "Reader")
      .def_prop_ro("step", &Reader::step)
      .def_prop_ro("path", [](const Reader& self) { return self.path(); })
      .def_prop_ro("trees", [](const Reader& self) { return self.trees(); })
      .def_prop_ro("metadata", [](const Reader& self) { return self.metadata(); })
      .def_prop_ro("tensors", &tensor_list)
      .def("load", &load)
      .def("verify", &verify);
  module.def("open_checkpointer", &open);
  nb::class_<checkpoint::Replica>(module, "Replica")
      .def("steps",
           [](checkpoint::Replica& self) { return unwrap(unlocked([&] { return self.steps(); })); })
      .def("open", [](checkpoint::Replica& self, uint64_t step) {
        return held(
            unwrap(unlocked([&] { return checkpoint::open_source(self.source(step), step); })));
      });
  module.def("open_replica", [](const std::string& address) {
    io::FileSystem& fs = file_system();
    return held(unwrap(unlocked([&] { return checkpoint::Replica::open(address, fs); })));
  });
  module.def("list_checkpoints", &list_checkpoints);
  module.def("open_checkpoint", [](const std::string& directory, uint64_t step) {
    return held(unwrap(checkpoint::open_checkpoint(file_system(), directory, step)));
  });
  module.def("open_checkpoint_at", [](const std::string& path) {
    return held(unwrap(checkpoint::open_checkpoint_at(file_system(), path)));
  });
  module.def("make_run_id", &checkpoint::make_run_id);
}

}  // namespace penstock::python
