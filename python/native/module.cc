#include <nanobind/nanobind.h>

#include "native/batch.h"
#include "native/dataset.h"
#include "native/loader.h"

NB_MODULE(_native, module) {
  module.doc() = "The engine of penstock. Use the package, not this.";
  penstock::python::bind_batch(module);
  penstock::python::bind_dataset(module);
  penstock::python::bind_loader(module);
}
