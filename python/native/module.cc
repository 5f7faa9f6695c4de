#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/metrics.h"
#include "native/batch.h"
#include "native/checkpoint.h"
#include "native/dataset.h"
#include "native/flat.h"
#include "native/loader.h"
#include "volume/pen.h"

NB_MODULE(_native, module) {
  module.doc() = "The engine of penstock. Use the package, not this.";
  penstock::volume::add_pen_scheme();
  penstock::python::bind_batch(module);
  penstock::python::bind_flat(module);
  penstock::python::bind_checkpoint(module);
  penstock::python::bind_dataset(module);
  penstock::python::bind_loader(module);
  module.attr("version") = PENSTOCK_VERSION;
  module.def("metrics", [] { return penstock::Metrics::global().prometheus(); });
}
