// A state taken apart: the tensors that are saved, and JSON that says how they were nested.
//
// In C++ because a state has tens of thousands of tensors, and training waits meanwhile: plain
// containers, numbers, strings and dense tensors are taken here; penstock.tree does the rest.
#pragma once

#include <nanobind/nanobind.h>

#include <deque>
#include <string>
#include <vector>

#include "checkpoint/name_set.h"
#include "penstock/checkpoint.h"

namespace penstock::python {

// Threads: with the GIL.
class Flat {
 public:
  Flat() { taken_.insert("__metadata__"); }
  // A tensor that is saved, kept alive by `keep`. Returns the name that it got: `path`, if that is free.
  std::string_view add(std::string_view path, std::string dtype, std::vector<uint64_t> shape,
                       uintptr_t address, int32_t device, nanobind::object keep);

  // Takes a state apart. `helper` (penstock.tree.Helper) knows the types of torch, and handles what is
  // not handled here.
  void walk(const nanobind::object& state, const nanobind::object& helper);

  checkpoint::State& state() { return state_; }
  const checkpoint::State& state() const { return state_; }

 private:
  checkpoint::State state_;
  std::vector<nanobind::object> keep_;
  std::deque<std::string> names_;  // Each stays where it is.
  checkpoint::NameSet taken_;
};

void bind_flat(nanobind::module_& module);

}  // namespace penstock::python
