// A state taken apart: the tensors that are saved, and JSON that says how they were nested.
//
// In C++ because a state has tens of thousands of tensors, and training waits meanwhile: plain
// containers, numbers, strings and dense tensors are taken here; penstock.tree does the rest.
#pragma once

#include <nanobind/nanobind.h>

#include <memory_resource>
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

  // The same for a path that stays where it is, as those of keep() do.
  std::string_view add_kept(std::string_view path, std::string dtype, std::vector<uint64_t> shape,
                            uintptr_t address, int32_t device, nanobind::object keep);
  void reserve(size_t tensors);  // For so many.
  // A text of both, with a dot between them where the first is not empty.
  std::string_view keep(std::string_view front, std::string_view back);

  // Takes a state apart. `helper` (penstock.tree.Helper) knows the types of torch, and handles what is
  // not handled here.
  void walk(const nanobind::object& state, const nanobind::object& helper);

  checkpoint::State& state() { return state_; }
  const checkpoint::State& state() const { return state_; }

 private:
  checkpoint::State state_;
  std::vector<nanobind::object> keep_;
  std::pmr::monotonic_buffer_resource texts_{size_t{1} << 20};  // Of keep().
  checkpoint::NameSet taken_;
};

void bind_flat(nanobind::module_& module);

}  // namespace penstock::python
