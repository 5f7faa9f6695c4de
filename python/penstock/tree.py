"""Nested state as JSON and a list of tensors, and back. No pickle: nothing that is read can run.

What is neither JSON nor a tensor is an object with one member that says what it is:
  {"tuple": [...]}   {"dict": [[key, value], ...]}   {"ordered": ..., "metadata": ...}
  {"bytes": base64}
  {"float": "nan"}   {"tensor": name, ...}   {"array": name}   {"scalar": name}
"""

import base64
import collections
import contextlib
import gc
import json
import sys

import numpy as np

from . import _native
from ._errors import CorruptError, InvalidError

_TORCH_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "complex64": "C64",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
_NUMPY_DTYPES = {
    dtype: name
    for dtype, name in _TORCH_DTYPES.items()
    if not dtype.startswith(("bfloat", "float8"))
}
_TO_NUMPY = {name: np.dtype(dtype) for dtype, name in _NUMPY_DTYPES.items()}


def _torch():
    """torch, if anybody has imported it: without it there are no tensors of it."""
    return sys.modules.get("torch")


def torch_dtypes():
    """{torch dtype: name}, of those that this torch has."""
    torch = _torch()
    if torch is None:
        return {}
    return {
        getattr(torch, dtype): name
        for dtype, name in _TORCH_DTYPES.items()
        if hasattr(torch, dtype)
    }


def join_path(path, key):
    """Of what stands under `key` in what is at `path`."""
    return f"{path}.{key}" if path else str(key)


def _describe(path):
    return path or "the state"


@contextlib.contextmanager
def without_collector():
    """For many objects that are made at once: the collector would look at all of them again and
    again, which takes longer than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Helper:
    """What the engine asks while it takes a state apart: of torch, of numpy, of odd tensors.

    What it returns as text is JSON, a node of the tree."""

    def __init__(self, flat):
        self._flat = flat
        self._storages = {}  # Names of memory in which tensors overlap, by address.
        torch = _torch()
        self.dtypes = torch_dtypes()
        self.strided = torch.strided if torch is not None else None
        self.plain = (torch.Tensor, torch.nn.Parameter) if torch is not None else ()
        self.tuples = (tuple, torch.Size) if torch is not None else (tuple,)
        self.ordered = collections.OrderedDict

    def other(self, value, path):
        """Neither a container, nor a number or str, nor a plain tensor. None: a tensor it is."""
        kind = type(value)
        if kind is bytes:
            return json.dumps({"bytes": base64.b64encode(value).decode()})
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value, path)
        if self.plain and isinstance(value, self.plain[0]):
            return self._check_subclass(value, path)
        raise InvalidError(
            f"{_describe(path)}: a {kind.__module__}.{kind.__qualname__} cannot be saved; dict, "
            "list, tuple, tensors, arrays, numbers, str, bytes and None can"
        )

    def check_key(self, key, path):
        if not isinstance(key, (str, int, float, bool, tuple, bytes, type(None))):
            what = type(key).__qualname__
            raise InvalidError(f"{path}: a {what} cannot be the key of a dict here")

    def _array(self, value, path):
        dtype = _NUMPY_DTYPES.get(value.dtype.name)
        if dtype is None or isinstance(value, np.ma.MaskedArray):
            what = type(value).__name__ if dtype else f"arrays of {value.dtype}"
            raise InvalidError(f"{_describe(path)}: {what} cannot be saved")
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        little = np.asarray(value, dtype=value.dtype.newbyteorder("="))
        data = np.ascontiguousarray(little).reshape(little.shape)
        address = data.__array_interface__["data"][0]
        return json.dumps({kind: self._flat.add(path, dtype, data.shape, address, -1, data)})

    def _check_subclass(self, value, path):
        kind = type(value)
        if hasattr(kind, "__tensor_flatten__") or hasattr(value, "_local_tensor"):
            raise InvalidError(
                f"{_describe(path)}: a {kind.__qualname__} is more than its memory; "
                "save it through torch.distributed.checkpoint with penstock.dcp.Writer"
            )

    def special(self, value, path):
        """Of a tensor that is not simply its memory: (what makes it the same as another, begin and
        end of its memory, whether it is seen through a bit that the memory does not have)."""
        if value.layout is not self.strided or value.is_quantized:
            raise InvalidError(f"{_describe(path)}: only dense tensors can be saved")
        dtype = self.dtypes.get(value.dtype)
        if dtype is None:
            raise InvalidError(f"{_describe(path)}: tensors of {value.dtype} cannot be saved")
        if value.is_meta:
            raise InvalidError(f"{_describe(path)}: tensors on the meta device hold no data")
        if not value.nbytes:
            return "", 0, 0, False
        address = value.data_ptr()
        flipped = value.is_neg() or (dtype == "C64" and value.is_conj())
        identity = repr((address, dtype, value.shape, value.stride(), flipped))
        return identity, address, address + _extent(value), flipped

    def place_whole(self, value, path):
        node, data = {}, value.detach()
        if not value.is_contiguous() and _is_dense(data):
            node["stride"] = list(data.stride())
        data = data.resolve_conj().resolve_neg().contiguous()
        node["tensor"] = self._add_tensor(path, self.dtypes[value.dtype], data)
        return json.dumps(node, ensure_ascii=False)

    def _add_tensor(self, path, dtype, data):
        device = -1
        if data.is_cuda:
            device = data.device.index
        elif not data.is_cpu:
            data = data.detach().cpu()
        return self._flat.add(path, dtype, data.shape, data.data_ptr(), device, data)

    def place_view(self, value, path):
        """In memory in which tensors overlap: saved once, as bytes, and seen through views."""
        memory = value.untyped_storage()
        storage = (memory.data_ptr(), memory.nbytes())  # Several may begin at one address.
        if storage not in self._storages:
            torch = _torch()
            data = torch.empty(0, dtype=torch.uint8, device=memory.device).set_(memory)
            self._storages[storage] = self._add_tensor(path, "U8", data)
        node = {
            "view": self._storages[storage],
            "dtype": self.dtypes[value.dtype],
            "offset": value.storage_offset(),
            "shape": list(value.shape),
            "stride": list(value.stride()),
        }
        return json.dumps(node, ensure_ascii=False)


def flatten(state):
    """A state taken apart, for the engine: its tensors, and the tree that they stand in."""
    flat = _native.Flat()
    try:
        with without_collector():
            flat.walk(state, Helper(flat))
    except RecursionError:
        raise InvalidError("the state is nested too deeply, or contains itself") from None
    except UnicodeEncodeError as error:
        raise InvalidError(f"a str in the state is not Unicode: {error.object!r}") from None
    wait_for_devices(flat)
    return flat


def wait_for_devices(flat):
    """Until what makes the tensors is done: the copy does not wait for streams of others."""
    for device in flat.devices:
        _torch().cuda.current_stream(device).synchronize()


def _is_dense(tensor):
    """Whether it is contiguous but for the order of its sides."""
    expected = 1
    for side, stride in sorted(
        ((side, stride) for side, stride in zip(tensor.shape, tensor.stride()) if side != 1),
        key=lambda pair: pair[1],
    ):
        if stride != expected:
            return False
        expected *= side
    return True


def _extent(tensor):
    """How many bytes from its first to its last."""
    last = sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def names_in(tree, kinds=("tensor", "view", "array", "scalar")):
    """Names of the tensors that a tree, as JSON, is made of."""
    found, waiting = set(), [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            for key, value in node.items():
                if key in kinds:
                    found.add(value)
                elif isinstance(value, list):
                    waiting += value
    return found


class Builder:
    """Puts a state together from its tree and `tensors`, {name: numpy array or torch tensor}."""

    def __init__(self, tensors, device=None, placed=None):
        self._tensors = tensors
        self._device = device
        self._placed = placed or {}  # Tensors that stand for a node, by its id().
        self._built = {}  # By node: what was tied is tied again.

    def build(self, node):
        if isinstance(node, list):
            return [self.build(item) for item in node]
        if not isinstance(node, dict):
            return node
        if id(node) in self._placed:
            return self._placed[id(node)]
        if "tensor" in node or "view" in node:
            return self._tensor(node)
        (kind, value), *_ = node.items()
        if kind == "dict":
            return {self.build(key): self.build(item) for key, item in value}
        if kind == "ordered":
            ordered = collections.OrderedDict((self.build(k), self.build(v)) for k, v in value)
            if "metadata" in node:
                ordered._metadata = self.build(node["metadata"])
            return ordered
        if kind == "tuple":
            return tuple(self.build(item) for item in value)
        if kind == "bytes":
            return base64.b64decode(value)
        if kind == "float":
            return float(value)
        if kind == "array":
            return self._tensors[value]
        if kind == "scalar":
            return self._tensors[value][()]
        raise InvalidError(f"the tree has a '{kind}', which this version does not know")

    def _tensor(self, node):
        if len(node) == 1:
            return self._moved(node["tensor"])
        key = json.dumps(node, sort_keys=True)
        if key not in self._built:
            self._built[key] = self._view(node) if "view" in node else self._whole(node)
        return self._built[key]

    def _moved(self, name):
        """On the device, once."""
        if name not in self._built:
            tensor = self._tensors[name]
            self._built[name] = tensor if self._device is None else tensor.to(self._device)
        return self._built[name]

    def _whole(self, node):
        tensor = self._moved(node["tensor"])
        strided = _torch().empty_strided(
            tensor.shape, node["stride"], dtype=tensor.dtype, device=tensor.device
        )
        return strided.copy_(tensor)

    def _view(self, node):
        torch = _torch()
        memory = self._moved(node["view"]).untyped_storage()
        dtype = {name: dtype for dtype, name in torch_dtypes().items()}[node["dtype"]]
        last = sum((side - 1) * stride for side, stride in zip(node["shape"], node["stride"]))
        if (node["offset"] + last + 1) * dtype.itemsize > memory.nbytes():
            raise CorruptError(f"the tree has a view that is larger than '{node['view']}'")
        return torch.empty(0, dtype=dtype, device=memory.device).set_(
            memory, node["offset"], node["shape"], node["stride"]
        )


# Reads of whole pages of this size go straight into memory that lies as the file does.
_PAGE = 4096
_LARGE = 32 << 20


class Empty:
    """Makes room for tensors."""

    def __init__(self):
        self._torch_dtypes = {name: dtype for dtype, name in torch_dtypes().items()}

    def make(self, dtype, shape, as_array, size=0, offset=0):
        """Room for one, and its address. A large one lies in its page as it does in the file."""
        if not as_array and dtype not in self._torch_dtypes:
            raise InvalidError(f"tensors of {dtype} need torch, or a newer one: import it first")
        # Bytes may be memory that tensors are views of: it must be as it was.
        if size >= _LARGE and offset % 64 == 0 and dtype != "U8":
            return self._make_alike(dtype, shape, as_array, size, offset)
        if as_array:
            array = np.empty(shape, dtype=_TO_NUMPY[dtype])
            return array, array.__array_interface__["data"][0]
        tensor = _torch().empty(shape, dtype=self._torch_dtypes[dtype])
        return tensor, tensor.data_ptr()

    def _make_alike(self, dtype, shape, as_array, size, offset):
        if as_array:
            room = np.empty(size + _PAGE, dtype=np.uint8)
            address = room.__array_interface__["data"][0]
        else:
            room = _torch().empty(size + _PAGE, dtype=_torch().uint8)
            address = room.data_ptr()
        skip = (offset - address) % _PAGE
        part = room[skip : skip + size]
        if as_array:
            return part.view(_TO_NUMPY[dtype]).reshape(shape), address + skip
        return part.view(self._torch_dtypes[dtype]).view(shape), address + skip


def tensor_over(data, dtype, shape, as_array):
    """A tensor in memory that is there: `data`, bytes as a numpy array."""
    if as_array:
        return data.view(_TO_NUMPY[dtype]).reshape(shape)
    torch_dtype = {name: dtype for dtype, name in torch_dtypes().items()}[dtype]
    return _torch().from_numpy(data).view(torch_dtype).reshape(shape)


def match(node, value, facts, path=""):
    """[(node, tensor)]: the tensors of the state `value` that stand where the tree has some.

    facts: {name: (dtype, shape)}. InvalidError where tree and state differ.
    """
    found = []
    _match(node, value, facts, path, found)
    return found


def _match(node, value, facts, path, found):
    kind = next(iter(node)) if isinstance(node, dict) else None
    if kind in ("dict", "ordered"):
        _match_dict(node[kind], value, facts, path, found)
    elif kind == "tuple" or isinstance(node, list):
        items = node["tuple"] if kind else node
        if not isinstance(value, (list, tuple)) or len(value) != len(items):
            raise InvalidError(f"{_describe(path)}: the checkpoint has {len(items)} items there")
        for i, item in enumerate(items):
            _match(item, value[i], facts, join_path(path, i), found)
    elif isinstance(node, dict) and ("tensor" in node or "view" in node or kind == "array"):
        _match_tensor(node, value, facts, path)
        found.append((node, value))
    elif hasattr(value, "dtype") and kind != "scalar":
        raise InvalidError(f"{_describe(path)}: the checkpoint has no tensor there")


def _match_dict(pairs, value, facts, path, found):
    keys = {Builder({}).build(key): item for key, item in pairs}
    if not isinstance(value, dict) or set(value) != set(keys):
        given = set(value) if isinstance(value, dict) else set()
        differs = sorted(map(str, given ^ set(keys)))[:3]
        raise InvalidError(f"{_describe(path)}: state and checkpoint differ in {differs}")
    for key, item in keys.items():
        _match(item, value[key], facts, join_path(path, key), found)


def _match_tensor(node, value, facts, path):
    if "view" in node:
        dtype, shape = node["dtype"], tuple(node["shape"])
    else:
        dtype, shape = facts[node.get("tensor") or node["array"]]
    name = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    known = _NUMPY_DTYPES if isinstance(value, np.ndarray) else _TORCH_DTYPES
    if known.get(name) != dtype or tuple(value.shape) != shape:
        raise InvalidError(
            f"{_describe(path)}: the checkpoint has {dtype} {list(shape)} there, the state "
            f"{name} {list(getattr(value, 'shape', []))}"
        )
    if isinstance(value, np.ndarray):
        fixed = not value.flags.writeable
    else:
        fixed = value.is_meta or any(
            side > 1 and stride == 0 for side, stride in zip(value.shape, value.stride())
        )
    if fixed:
        raise InvalidError(f"{_describe(path)}: that cannot be written to")


def address_in(node, target):
    """Where it can be read into, or None: in place only what lies as it does in a file."""
    if len(node) != 1:
        return None
    if isinstance(target, np.ndarray):
        plain = target.flags.c_contiguous and target.flags.writeable and target.dtype.isnative
        return target.__array_interface__["data"][0] if plain else None
    if target.is_cpu and target.is_contiguous() and not target.is_conj() and not target.is_neg():
        return target.data_ptr()
    return None


def copy_into(target, source):
    if target is source:
        return
    if isinstance(target, np.ndarray):
        np.copyto(target, source)
        return
    with _torch().no_grad():
        target.copy_(source)
