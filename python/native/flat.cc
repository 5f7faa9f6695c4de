#include "native/flat.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/log.h"
#include "checkpoint/safetensors.h"
#include "native/dlpack.h"

namespace nb = nanobind;

namespace penstock::python {

namespace {

// Steals.
nb::object checked(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

std::string_view text_of(const nb::handle& str) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(str.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

constexpr size_t kNodeBytes = sizeof("{\"tensor\":\"\"}");  // Besides a name.

// Names of attributes, made once.
struct Names {
  nb::object layout = nb::str("layout");
  nb::object dtype = nb::str("dtype");
  nb::object shape = nb::str("shape");
  nb::object is_cpu = nb::str("is_cpu");
  nb::object is_cuda = nb::str("is_cuda");
  nb::object is_contiguous = nb::str("is_contiguous");
  nb::object is_neg = nb::str("is_neg");
  nb::object is_conj = nb::str("is_conj");
  nb::object data_ptr = nb::str("data_ptr");
  nb::object get_device = nb::str("get_device");
};

nb::object get(const nb::handle& object, const nb::object& name) {
  return checked(PyObject_GetAttr(object.ptr(), name.ptr()));
}

nb::object call(const nb::handle& object, const nb::object& name) {
  return checked(PyObject_CallMethodNoArgs(object.ptr(), name.ptr()));
}

// The collector would look at all that is there again and again, for the pairs of large dicts.
class WithoutCollector {
 public:
  ~WithoutCollector() {
    if (was_on_) PyGC_Enable();
  }

 private:
  const bool was_on_ = PyGC_Disable() != 0;
};

class Recursion {
 public:
  Recursion() {
    if (Py_EnterRecursiveCall(" while a state was taken apart") != 0) throw nb::python_error();
  }
  ~Recursion() { Py_LeaveRecursiveCall(); }
};

}  // namespace

class Walk {
 public:
  Walk(Flat& flat, const nb::object& helper)
      : flat_(flat),
        helper_(helper),
        dtypes_(nb::cast<nb::dict>(helper.attr("dtypes"))),
        strided_(helper.attr("strided")),
        plain_(nb::cast<nb::tuple>(helper.attr("plain"))),
        tuples_(nb::cast<nb::tuple>(helper.attr("tuples"))),
        ordered_(helper.attr("ordered")) {
    for (size_t i = 0; i < plain_.size(); ++i) {
      if (const DlLook look = dl_look(plain_[i])) looks_.emplace(plain_[i].ptr(), look);
    }
  }

  void run(const nb::object& state) {
    const WithoutCollector paused;
    node(state, "");
    place();
  }

 private:
  // A tensor of the state, once for all the places where it stands.
  struct Found {
    nb::object value;
    std::string_view path;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    bool simple = false;   // Its memory is what is saved.
    bool flipped = false;  // Seen through a bit that its memory does not have.
    std::string dtype;
    std::vector<uint64_t> shape;
    int32_t device = -1;
    size_t same_as = 0;          // Another, or itself.
    std::string_view name = {};  // Under which a simple one is saved,
    std::string node = {};       // or the JSON of another.
  };
  // Of the text where the node of a tensor is to stand.
  struct Gap {
    size_t at = 0;
    size_t found = 0;
  };

  void node(const nb::handle& value, std::string_view path);
  void container(const nb::handle& value, std::string_view path);
  void number(const nb::handle& value);
  void quoted(const nb::handle& str);
  void items(const nb::handle& sequence, std::string_view path);
  void pairs(const nb::object& items, std::string_view path);
  void key(const nb::handle& key, std::string_view path);
  void ordered(const nb::handle& value, std::string_view path);
  void tensor(const nb::handle& value, std::string_view path);
  std::optional<Found> simple_tensor(const nb::handle& value);
  std::optional<Found> looked_at(const nb::handle& value);
  std::optional<Found> asked(const nb::handle& value);
  void find_same(std::span<const size_t> at_one_address);
  void special_tensor(const nb::handle& value, std::string_view path);
  void place();
  std::vector<bool> overlapping();
  bool is_one_of(const nb::handle& type, const nb::tuple& types) const;

  Flat& flat_;
  const nb::object helper_;
  const nb::dict dtypes_;     // {torch's: ours}
  const nb::object strided_;  // torch.strided, or None.
  const nb::tuple plain_;     // Classes of tensors that are no more than their memory.
  std::unordered_map<const PyObject*, DlLook>
      looks_;                 // By class, of those in plain_ that have one.
  const nb::tuple tuples_;    // tuple, torch.Size
  const nb::object ordered_;  // collections.OrderedDict
  const Names names_;
  std::string text_;
  std::vector<Gap> gaps_;
  std::vector<Found> found_;
  std::unordered_map<std::string, size_t> special_;  // By what helper says makes them the same.
};

std::string_view Flat::keep(std::string_view front, std::string_view back) {
  const size_t dot = front.empty() ? 0 : 1;
  const size_t size = front.size() + dot + back.size();
  char* const joined = static_cast<char*>(texts_.allocate(size + 1, 1));
  std::memcpy(joined, front.data(), front.size());
  if (dot != 0) joined[front.size()] = '.';
  std::memcpy(joined + front.size() + dot, back.data(), back.size());
  return {joined, size};
}

bool Walk::is_one_of(const nb::handle& type, const nb::tuple& types) const {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].is(type)) return true;
  }
  return false;
}

void Walk::node(const nb::handle& value, std::string_view path) {
  const nb::handle type = value.type();
  if (is_one_of(type, plain_)) return tensor(value, path);
  if (value.is_none()) {
    text_ += "null";
  } else if (PyUnicode_CheckExact(value.ptr())) {
    quoted(value);
  } else if (PyBool_Check(value.ptr()) || PyLong_CheckExact(value.ptr()) ||
             PyFloat_CheckExact(value.ptr())) {
    number(value);
  } else {
    container(value, path);
  }
}

void Walk::number(const nb::handle& value) {
  if (PyBool_Check(value.ptr())) {
    text_ += value.ptr() == Py_True ? "true" : "false";
    return;
  }
  const nb::object text = checked(PyObject_Repr(value.ptr()));
  const bool finite =
      !PyFloat_CheckExact(value.ptr()) || std::isfinite(PyFloat_AS_DOUBLE(value.ptr()));
  if (finite) {
    text_ += text_of(text);
  } else {
    text_.append("{\"float\":\"").append(text_of(text)).append("\"}");
  }
}

void Walk::quoted(const nb::handle& str) {
  text_ += '"';
  append_json_escaped(text_, text_of(str));
  text_ += '"';
}

void Walk::container(const nb::handle& value, std::string_view path) {
  const Recursion deeper;
  const nb::handle type = value.type();
  if (PyDict_CheckExact(value.ptr())) {
    text_ += "{\"dict\":";
    pairs(checked(PyDict_Items(value.ptr())), path);
    text_ += "}";
  } else if (type.is(ordered_)) {
    ordered(value, path);
  } else if (PyList_CheckExact(value.ptr())) {
    // A copy: what is asked of tensors could change it.
    items(checked(PySequence_List(value.ptr())), path);
  } else if (is_one_of(type, tuples_)) {
    text_ += "{\"tuple\":";
    items(checked(PySequence_List(value.ptr())), path);
    text_ += "}";
  } else if (PyDict_Check(value.ptr())) {
    // A kind of dict that someone made: its contents count.
    text_ += "{\"dict\":";
    pairs(checked(PyMapping_Items(value.ptr())), path);
    text_ += "}";
  } else {
    // JSON, or None for a tensor after all; or it cannot be saved.
    const nb::object other = helper_.attr("other")(value, nb::str(path.data(), path.size()));
    if (other.is_none()) return tensor(value, path);
    text_ += text_of(other);
  }
}

void Walk::items(const nb::handle& list, std::string_view path) {
  text_ += "[";
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.ptr()); ++i) {
    if (i > 0) text_ += ",";
    node(PyList_GET_ITEM(list.ptr(), i), flat_.keep(path, std::to_string(i)));
  }
  text_ += "]";
}

void Walk::pairs(const nb::object& items, std::string_view path) {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(items.ptr()));
  if (count > found_.capacity() / 2) found_.reserve(found_.size() + count);
  text_ += "[";
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.ptr()); ++i) {
    PyObject* const pair = PyList_GET_ITEM(items.ptr(), i);
    const nb::handle name = PyTuple_GET_ITEM(pair, 0);
    const nb::object text = checked(PyObject_Str(name.ptr()));
    const std::string_view inner = flat_.keep(path, text_of(text));
    text_ += i > 0 ? ",[" : "[";
    key(name, inner);
    text_ += ",";
    node(PyTuple_GET_ITEM(pair, 1), inner);
    text_ += "]";
  }
  text_ += "]";
}

void Walk::key(const nb::handle& key, std::string_view path) {
  if (PyUnicode_CheckExact(key.ptr())) return quoted(key);
  helper_.attr("check_key")(key, nb::str(path.data(), path.size()));
  node(key, path);
}

void Walk::ordered(const nb::handle& value, std::string_view path) {
  text_ += "{\"ordered\":";
  pairs(checked(PyMapping_Items(value.ptr())), path);
  // Of a module's state_dict().
  const nb::object versions = nb::getattr(value, "_metadata", nb::none());
  if (!versions.is_none()) {
    text_ += ",\"metadata\":";
    node(versions, flat_.keep(path, "_metadata"));
  }
  text_ += "}";
}

// A dense tensor that is no more than its memory, on the host or a GPU.
std::optional<Walk::Found> Walk::simple_tensor(const nb::handle& value) {
  std::optional<Found> found = looks_.empty() ? asked(value) : looked_at(value);
  if (!found || call(value, names_.is_neg).ptr() == Py_True) return std::nullopt;
  const Result<uint64_t> bytes = checkpoint::tensor_bytes(found->dtype, found->shape);
  if (!bytes.ok()) return std::nullopt;
  if (*bytes == 0) found->begin = 0;
  found->end = found->begin + *bytes;
  found->simple = true;
  return found;
}

std::optional<Walk::Found> Walk::looked_at(const nb::handle& value) {
  DlTensor tensor;
  const auto look = looks_.find(value.type().ptr());
  if (look == looks_.end()) return asked(value);
  if (look->second(value.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  Found found;
  found.dtype = dtype_name(tensor);
  const bool on_host = tensor.device_type == kDlCpu;
  if (found.dtype.empty() || (!on_host && tensor.device_type != kDlCuda)) return asked(value);
  if (!is_contiguous(tensor)) return std::nullopt;
  found.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  found.begin = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  if (!on_host) found.device = tensor.device_id;
  return found;
}

// Where there is no such call, and of what it does not know.
std::optional<Walk::Found> Walk::asked(const nb::handle& value) {
  if (!get(value, names_.layout).is(strided_)) return std::nullopt;
  PyObject* const name = PyDict_GetItem(dtypes_.ptr(), get(value, names_.dtype).ptr());
  if (name == nullptr) return std::nullopt;
  const bool on_host = get(value, names_.is_cpu).ptr() == Py_True;
  if (!on_host && get(value, names_.is_cuda).ptr() != Py_True) return std::nullopt;
  if (call(value, names_.is_contiguous).ptr() != Py_True) return std::nullopt;
  Found found;
  found.dtype = text_of(name);
  if (found.dtype == "C64" && call(value, names_.is_conj).ptr() == Py_True) return std::nullopt;
  const nb::object shape = get(value, names_.shape);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape.ptr()); ++i)
    found.shape.push_back(PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(shape.ptr(), i)));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  found.begin = nb::cast<uintptr_t>(call(value, names_.data_ptr));
  if (!on_host) found.device = nb::cast<int32_t>(call(value, names_.get_device));
  return found;
}

void Walk::tensor(const nb::handle& value, std::string_view path) {
  std::optional<Found> found = simple_tensor(value);
  if (!found) return special_tensor(value, path);
  found->value = nb::borrow(value);
  found->path = path;
  found->same_as = found_.size();
  gaps_.push_back({text_.size(), found_.size()});
  found_.push_back(std::move(*found));
}

void Walk::special_tensor(const nb::handle& value, std::string_view path) {
  // (what makes it the same as another, begin, end, flipped); or it cannot be saved.
  const auto facts =
      nb::cast<nb::tuple>(helper_.attr("special")(value, nb::str(path.data(), path.size())));
  const auto identity = nb::cast<std::string>(facts[0]);
  if (const auto known = special_.find(identity); !identity.empty() && known != special_.end()) {
    gaps_.push_back({text_.size(), known->second});
    return;
  }
  special_.emplace(identity, found_.size());
  gaps_.push_back({text_.size(), found_.size()});
  Found found;
  found.value = nb::borrow(value);
  found.path = path;
  found.begin = nb::cast<uintptr_t>(facts[1]);
  found.end = nb::cast<uintptr_t>(facts[2]);
  found.flipped = nb::cast<bool>(facts[3]);
  found.same_as = found_.size();
  found_.push_back(std::move(found));
}

// What was tied is saved once: of simple tensors that begin at one address, those that are the same.
void Walk::find_same(std::span<const size_t> at_one_address) {
  for (size_t i = 1; i < at_one_address.size(); ++i) {
    Found& one = found_[at_one_address[i]];
    for (const size_t before : at_one_address.first(i)) {
      const Found& other = found_[before];
      const bool is_same = one.simple && other.simple && other.same_as == before &&
                           one.dtype == other.dtype && one.shape == other.shape &&
                           one.device == other.device;
      if (!is_same) continue;
      one.same_as = before;
      break;
    }
  }
}

// Which have memory in common with another, that is not the same.
std::vector<bool> Walk::overlapping() {
  std::vector<size_t> order;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].begin < found_[i].end) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return found_[i].begin; });
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && found_[order[end]].begin == found_[order[i]].begin) ++end;
    find_same(std::span(order).subspan(i, end - i));
    i = end;
  }
  std::erase_if(order, [&](size_t i) { return found_[i].same_as != i; });
  std::vector<bool> overlaps(found_.size());
  size_t reaching = 0;  // In `order`: which of those before goes farthest.
  for (size_t i = 1; i < order.size(); ++i) {
    if (found_[order[i]].begin < found_[order[reaching]].end)
      overlaps[order[i]] = overlaps[order[reaching]] = true;
    if (found_[order[i]].end > found_[order[reaching]].end) reaching = i;
  }
  return overlaps;
}

void Walk::place() {
  const std::vector<bool> overlaps = overlapping();
  flat_.reserve(found_.size());
  for (size_t i = 0; i < found_.size(); ++i) {
    Found& one = found_[i];
    if (one.same_as != i) continue;
    const auto ask = [&](const char* how) {
      const nb::str path(one.path.data(), one.path.size());
      one.node = text_of(helper_.attr(how)(one.value, path));
    };
    if (overlaps[i] && !one.flipped) {
      ask("place_view");
    } else if (one.simple) {
      one.name = flat_.add_kept(one.path, std::move(one.dtype), std::move(one.shape), one.begin,
                                one.device, std::move(one.value));
    } else {
      ask("place_whole");
    }
  }
  std::string& tree = flat_.state().tree;
  size_t names = 0;
  for (const Found& one : found_) names += one.path.size() + kNodeBytes;
  tree.reserve(text_.size() + names);
  size_t from = 0;
  for (const Gap& gap : gaps_) {
    tree.append(text_, from, gap.at - from);
    from = gap.at;
    const Found& one = found_[found_[gap.found].same_as];
    if (one.name.empty()) {
      tree += one.node;
    } else {
      tree += "{\"tensor\":\"";
      append_json_escaped(tree, one.name);
      tree += "\"}";
    }
  }
  tree.append(text_, from);
}

std::string_view Flat::add(std::string_view path, std::string dtype, std::vector<uint64_t> shape,
                           uintptr_t address, int32_t device, nb::object keep) {
  return add_kept(this->keep({}, path), std::move(dtype), std::move(shape), address, device,
                  std::move(keep));
}

void Flat::reserve(size_t tensors) {
  state_.tensors.reserve(tensors);
  keep_.reserve(tensors);
}

std::string_view Flat::add_kept(std::string_view path, std::string dtype,
                                std::vector<uint64_t> shape, uintptr_t address, int32_t device,
                                nb::object keep) {
  std::string_view name = path.empty() ? "state" : path;
  for (int count = 2; !taken_.insert(name); ++count)
    name = this->keep({}, std::string(path).append("#").append(std::to_string(count)));
  state_.tensors.push_back({std::string(name), std::move(dtype), std::move(shape),
                            reinterpret_cast<const std::byte*>(address), device});
  keep_.push_back(std::move(keep));
  return name;
}

void Flat::walk(const nb::object& state, const nb::object& helper) {
  Walk(*this, helper).run(state);
}

void bind_flat(nb::module_& module) {
  nb::class_<Flat>(module, "Flat")
      .def(nb::init<>())
      .def("add", &Flat::add)
      .def("walk", &Flat::walk)
      .def_prop_ro("tree", [](const Flat& self) { return self.state().tree; })
      .def_prop_ro("names",
                   [](const Flat& self) {
                     std::vector<std::string> names;
                     for (const auto& tensor : self.state().tensors) names.push_back(tensor.name);
                     return names;
                   })
      // Of CUDA, each once.
      .def_prop_ro("devices", [](const Flat& self) {
        std::vector<int32_t> devices;
        for (const auto& tensor : self.state().tensors) {
          const bool known = std::ranges::find(devices, tensor.device) != devices.end();
          if (tensor.device >= 0 && !known) devices.push_back(tensor.device);
        }
        return devices;
      });
}

}  // namespace penstock::python
