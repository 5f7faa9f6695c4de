"""Penstock behind torch.distributed.checkpoint (DCP).

>>> dcp.save(state, storage_writer=penstock.dcp.Writer("/shared/run1/step-0000001000"))
>>> dcp.load(state, storage_reader=penstock.dcp.Reader("/shared/run1/step-0000001000"))

Each rank writes its part in parallel, past the page cache; the coordinator commits when all parts
are durable. Any number of ranks can load it again. The path is a whole checkpoint or nothing: one
that is replaced stays until the new one is durable. No pickle of it is loaded but what torch itself
loads with weights_only=True.
"""

import contextlib
import dataclasses
import functools
import io
import json
import os
import re
import sys
import time

import torch
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _native
from ._errors import InvalidError, PenstockError, UnsupportedError
from ._loading import PoisonedError
from .checkpoint import _program
from .tree import Builder, Empty, flatten, torch_dtypes, wait_for_devices

_PART = "\0penstock.part"  # Among the results of a rank: what commit() wants to know of its files.
_SCRATCH_BYTES = 1 << 30
_PATIENCE = 600  # Seconds.


def _split(path):
    path = os.path.abspath(os.fspath(path))
    return os.path.dirname(path), os.path.basename(path)


def _step_of(name):
    found = re.fullmatch(r"step-(\d{10,})", name)
    return int(found[1]) if found else 0


def _is_local(checkpoint_id):
    return isinstance(checkpoint_id, (str, os.PathLike)) and "://" not in os.fspath(checkpoint_id)


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _closes_on_failure(method):
    """A save that failed keeps no lease, for whoever tries again."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            with contextlib.suppress(PenstockError):
                self._close()
            raise

    return call


def _open_patiently(directory, options):
    """One save at a time goes to a directory: others, of other checkpoints in it, wait for it."""
    end, told = time.monotonic() + _PATIENCE, False
    while True:
        try:
            return _native.open_checkpointer(directory, options)
        except PenstockError as error:
            if error.code != "busy" or time.monotonic() > end:
                raise
        if not told and time.monotonic() > end - _PATIENCE + 1:
            print(f"penstock: waiting for another save to {directory}", file=sys.stderr)
            told = True
        time.sleep(0.02)


class _AtPath:
    """What DCP asks of writers and readers alike."""

    @property
    def checkpoint_id(self):
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return _is_local(checkpoint_id)


class Writer(_AtPath, StorageWriter):
    """Writes to the directory `path`, which becomes the checkpoint.

    overwrite: what is there is replaced, in one moment, when the new one is durable.
    arena_bytes: memory for copies on their way to the disk. max_bandwidth: bytes a second.
    """

    def __init__(
        self,
        path=None,
        *,
        overwrite=True,
        arena_bytes=256 << 20,
        max_bandwidth=None,
        max_threads=None,
        sha256sums=False,
    ):
        self._path = None if path is None else os.fspath(path)
        self._overwrite = overwrite
        self._options = {
            "arena_bytes": arena_bytes,
            "max_bandwidth": max_bandwidth or 0,
            "threads": max_threads or 0,
            "sha256sums": bool(sha256sums),
        }
        self._native = None
        self._attempt = None

    def __getstate__(self):
        return {**self.__dict__, "_native": None}

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self._path)

    def reset(self, checkpoint_id=None):
        self._close()
        if checkpoint_id is not None:
            self._path = os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        if not kwargs.get("use_collectives", True):
            raise UnsupportedError(
                "penstock.dcp.Writer commits once for all ranks: use_collectives=True"
            )
        if self._path is None:
            raise InvalidError("penstock.dcp.Writer needs a path, or dcp.save a checkpoint_id")
        if not _is_local(self._path):
            raise UnsupportedError(f"{self._path}: penstock.dcp.Writer writes to directories")
        directory, self._name = _split(self._path)
        # The coordinator holds the lease, whatever its rank is.
        number = 0 if is_coordinator else kwargs.get("rank", 0) + 1
        options = {**self._options, "rank": number, "ranks": number + 1, "program": _program()}
        self._close()
        self._native = _open_patiently(directory, options)

    def _close(self):
        if self._native is not None:
            self._native.close()
            self._native = None

    @_closes_on_failure
    def prepare_local_plan(self, plan):
        if not self._overwrite and os.path.lexists(self._path):
            raise InvalidError(f"{self._path} is there already, and overwrite=False")
        return plan

    def prepare_global_plan(self, plans):
        self._attempt = _native.make_run_id()
        return [dataclasses.replace(plan, storage_data=self._attempt) for plan in plans]

    @_closes_on_failure
    def write_data(self, plan, planner):
        attempt = plan.storage_data
        flat = _native.Flat()
        results = [_add_item(flat, item, planner) for item in plan.items]
        if results or self._attempt is not None:  # One at least, of the coordinator.
            part = self._write(flat, attempt)
            results.append(WriteResult(MetadataIndex(_PART), 0, part))
        if self._attempt is None:  # The coordinator has more to do.
            self._close()
        return _done(results)

    def _write(self, flat, attempt):
        wait_for_devices(flat)
        save = self._native.save(_step_of(self._name), flat, {}, self._name, True, attempt)
        save.durable(None)
        return save.part

    @_closes_on_failure
    def finish(self, metadata, results):
        parts, places = [], []
        for result in (result for of_rank in results for result in of_rank):
            if result.index.fqn == _PART:
                parts.append(result.storage_data)
            else:
                offset = None if result.index.offset is None else list(result.index.offset)
                places.append([result.index.fqn, offset, result.storage_data])
        tree = json.dumps({"dcp": _encode(metadata, places)}, separators=(",", ":"))
        self._native.commit(
            _step_of(self._name), self._name, self._overwrite, self._attempt, parts, tree, {}
        )
        self._attempt = None
        self._close()


def _add_item(flat, item, planner):
    """The data of an item, as the engine wants it."""
    data, dtypes = planner.resolve_data(item), torch_dtypes()
    if item.type == WriteItemType.BYTE_IO:
        data = _checked_bytes(item.index.fqn, data)
    if data.dtype not in dtypes:
        raise InvalidError(f"{item.index.fqn}: tensors of {data.dtype} cannot be saved")
    data = data.detach().resolve_conj().resolve_neg().contiguous()
    if not (data.is_cpu or data.is_cuda):
        data = data.cpu()
    name = item.index.fqn
    if item.type == WriteItemType.SHARD:
        name += "@" + ",".join(map(str, item.index.offset or ()))
    device = data.device.index if data.is_cuda else -1
    name = flat.add(name, dtypes[data.dtype], data.shape, data.data_ptr(), device, data)
    return WriteResult(item.index, data.nbytes, name)


def _checked_bytes(fqn, stream):
    """What DCP pickles of objects that are no tensors: if it can be loaded without running it."""
    stream.seek(0)
    _load_safely(fqn, stream.getvalue(), "saved")
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def _load_safely(fqn, data, verb):
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:
        raise InvalidError(
            f"{fqn}: cannot be {verb}: torch.load(weights_only=True) refuses it: {error}"
        ) from error


def _encode(metadata, places):
    """DCP's metadata as JSON."""
    names = {dtype: name for dtype, name in torch_dtypes().items()}
    items = []
    for fqn, item in metadata.state_dict_metadata.items():
        if isinstance(item, BytesStorageMetadata):
            items.append([fqn])
            continue
        chunks = [[list(chunk.offsets), list(chunk.sizes)] for chunk in item.chunks]
        items.append([fqn, names[item.properties.dtype], list(item.size), chunks])
    planner = flatten(metadata.planner_data)
    if planner.names:
        raise InvalidError("a planner whose data holds tensors is not supported")
    return {"items": items, "places": places, "planner": json.loads(planner.tree)}


def _decode(tree, path):
    dtypes = {name: dtype for dtype, name in torch_dtypes().items()}
    found = {}
    for fqn, *facts in tree["items"]:
        if not facts:
            found[fqn] = BytesStorageMetadata()
            continue
        dtype, size, chunks = facts
        found[fqn] = TensorStorageMetadata(
            properties=TensorProperties(dtype=dtypes[dtype]),
            size=torch.Size(size),
            chunks=[ChunkStorageMetadata(torch.Size(at), torch.Size(of)) for at, of in chunks],
        )
    places = {MetadataIndex(fqn, offset): name for fqn, offset, name in tree["places"]}
    return Metadata(
        state_dict_metadata=found,
        planner_data=Builder({}).build(tree["planner"]),
        storage_data=places,
        storage_meta=StorageMeta(checkpoint_id=path),
    )


class Reader(_AtPath, StorageReader):
    """Reads what Writer wrote, at any number of ranks; every byte is verified."""

    def __init__(self, path=None):
        self._path = None if path is None else os.fspath(path)
        self._reader = None

    def reset(self, checkpoint_id=None):
        self._reader = None
        if checkpoint_id is not None:
            self._path = os.fspath(checkpoint_id)

    def read_metadata(self):
        if self._path is None:
            raise InvalidError("penstock.dcp.Reader needs a path, or dcp.load a checkpoint_id")
        self._reader = _native.open_checkpoint_at(self._path)
        tree = json.loads(self._reader.trees[0] or "{}")
        if not isinstance(tree, dict) or "dcp" not in tree:
            raise InvalidError(
                f"{self._path}: not saved through DCP; penstock.Checkpointer loads it"
            )
        return _decode(tree["dcp"], self._path)

    def set_up_storage_reader(self, metadata, is_coordinator):
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        facts = {
            name: (index, dtype, shape, size)
            for index, (name, dtype, shape, size, *_) in enumerate(self._reader.tensors)
        }
        wanted = {}  # Requests, by the tensor that they are parts of.
        for request in plan.items:
            wanted.setdefault(self._places[request.storage_index], []).append(request)
        batch, room = [], 0
        for name, requests in wanted.items():
            batch.append((*facts[name], requests))
            room += facts[name][3]
            if room >= _SCRATCH_BYTES:
                self._read_batch(batch, planner)
                batch, room = [], 0
        self._read_batch(batch, planner)
        return _done(None)

    def _read_batch(self, batch, planner):
        empty = Empty()
        indices, addresses, filled = [], [], []
        for index, dtype, shape, _, requests in batch:
            target = _whole_target(requests, shape, planner)
            if target is not None and target.dtype == _dtype(dtype):
                tensor, address = target, target.data_ptr()
            else:
                tensor, address = empty.make(dtype, shape, False)
                target = None
            indices.append(index)
            addresses.append(address)
            filled.append((tensor, target, requests))
        try:
            self._reader.load(indices, addresses)
        except Exception as error:
            raise PoisonedError(
                f"{error}; the state that was given is written to in part, and must not be used"
            ) from error
        for tensor, target, requests in filled:
            for request in requests:
                _deliver(request, tensor, target, planner)


def _dtype(name):
    return {name: dtype for dtype, name in torch_dtypes().items()}.get(name)


def _whole_target(requests, shape, planner):
    """Where a tensor can be read to at once, or None."""
    request = requests[0]
    if len(requests) > 1 or request.type == LoadItemType.BYTE_IO:
        return None
    if any(request.storage_offsets) or tuple(request.lengths) != tuple(shape):
        return None
    target = planner.resolve_tensor(request).detach()
    plain = target.is_contiguous() and not target.is_conj() and not target.is_neg()
    return target if target.is_cpu and plain else None


def _deliver(request, tensor, target, planner):
    if request.type == LoadItemType.BYTE_IO:
        data = tensor.numpy().tobytes()
        _load_safely(request.dest_index.fqn, data, "loaded")
        planner.load_bytes(request, io.BytesIO(data))
        return
    if target is None:
        target = planner.resolve_tensor(request).detach()
        for side, (at, length) in enumerate(zip(request.storage_offsets, request.lengths)):
            tensor = tensor.narrow(side, at, length)
        target.copy_(tensor)
    planner.commit_tensor(request, target)


__all__ = ["Reader", "Writer"]
