"""Loads of checkpoints: which one, into what memory, and the state put together again."""

import fnmatch
import json
import mmap
import os
import re
import sys

import numpy as np

from ._errors import CorruptError, InvalidError, NotFoundError, PenstockError
from .tree import (
    Builder,
    Empty,
    address_in,
    copy_into,
    join_path,
    match,
    names_in,
    tensor_over,
    without_collector,
)


class NoSuchTensor(NotFoundError):
    """Of a checkpoint that is whole: an older one would not help."""


class PoisonedError(PenstockError):
    """A load into existing tensors failed midway: what they hold is neither the old nor the new."""


class Request:
    """What load() was asked for."""

    def __init__(self, *, rank=0, ranks=1, device=None, only=None, into=None, use_mmap=False):
        if into is not None and (only is not None or use_mmap or device is not None):
            raise InvalidError("into= loads everything, in place: not with only=, mmap= or device=")
        self.rank = _rank(rank)
        self.ranks = ranks
        self.device = device
        self.only = _patterns(only)
        self.into = into
        self.mmap = use_mmap
        self.touched = False  # Whether tensors of `into` were written to.


def _rank(rank):
    if isinstance(rank, bool) or not hasattr(rank, "__index__") or rank.__index__() < 0:
        raise InvalidError(f"rank={rank!r}: a whole number, 0 or more")
    return rank.__index__()


def _patterns(only):
    if only is None:
        return None
    patterns = [only] if isinstance(only, str) else only
    if not isinstance(patterns, (list, tuple, set)) or not patterns:
        raise InvalidError(f"only={only!r}: a pattern of names like 'model.*', or several")
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidError(f"only={only!r}: patterns are strings, like 'model.*'")
    return list(patterns)


_NOTHING = object()


class _Only:
    """The part of a tree that patterns name: what matches, with all that is in it."""

    def __init__(self, patterns):
        self._patterns = {text: re.compile(fnmatch.translate(text)).match for text in patterns}
        self._unused = set(patterns)

    def select(self, tree, where):
        """NoSuchTensor names the patterns that nothing is called by."""
        found = self._part(tree, "")
        if self._unused:
            names = ", ".join(repr(pattern) for pattern in sorted(self._unused))
            raise NoSuchTensor(f"{where}: nothing is called {names}")
        return found

    def _is_wanted(self, path):
        matching = [text for text, matches in self._patterns.items() if matches(path)]
        self._unused.difference_update(matching)
        return bool(matching)

    def _part(self, node, path):
        """_NOTHING where nothing of it is wanted."""
        if path and self._is_wanted(path):
            return node
        if isinstance(node, list):
            return self._items(node, path) or _NOTHING
        kind = next(iter(node)) if isinstance(node, dict) else None
        if kind == "tuple":
            items = self._items(node[kind], path)
            return {kind: items} if items else _NOTHING
        if kind in ("dict", "ordered"):
            pairs = [
                [key, self._part(item, join_path(path, Builder({}).build(key)))]
                for key, item in node[kind]
            ]
            pairs = [pair for pair in pairs if pair[1] is not _NOTHING]
            return {**node, kind: pairs} if pairs else _NOTHING
        return _NOTHING

    def _items(self, items, path):
        parts = [self._part(item, join_path(path, i)) for i, item in enumerate(items)]
        return [part for part in parts if part is not _NOTHING]


def _array_names(tree):
    """Those that were numpy's."""
    return names_in(tree, ("array", "scalar"))


def _tree_of(reader, request):
    trees = reader.trees
    if request.ranks is None and request.rank >= len(trees):
        raise InvalidError(
            f"{reader.path}: saved by {len(trees)} ranks, there is no rank {request.rank}"
        )
    if request.ranks is not None and len(trees) != request.ranks:
        if request.ranks == 1:
            hint = "load(rank=…) loads the part of one of them"
        else:
            hint = "states that are to be loaded by another number of ranks go through penstock.dcp"
        raise InvalidError(
            f"{reader.path}: saved by {len(trees)} ranks, loaded by {request.ranks}; {hint}"
        )
    return json.loads(trees[request.rank]) if trees[request.rank] else None


class _Memory:
    """Where the tensors of a checkpoint go: addresses, and what is at them."""

    def __init__(self):
        self.tensors = {}
        self.indices = []
        self.addresses = []

    def add(self, index, name, tensor, address):
        self.tensors[name] = tensor
        self.indices.append(index)
        self.addresses.append(address)


def _tensors_of(reader, request, tree):
    """(index, name, dtype, shape, bytes, file, offset) of those that the tree is made of."""
    wanted = None if request.only is None else names_in(tree)
    for index, (name, *facts, rank) in enumerate(reader.tensors):
        if rank == request.rank and (wanted is None or name in wanted):
            yield index, name, *facts


def _new_memory(reader, request, tree):
    memory, empty, arrays = _Memory(), Empty(), _array_names(tree)
    for index, name, dtype, shape, size, _, offset in _tensors_of(reader, request, tree):
        memory.add(index, name, *empty.make(dtype, shape, name in arrays, size, offset))
    return memory


def _mapped(reader, request, tree):
    """Tensors over the files: nothing is read, or verified, before it is used."""
    files, tensors, empty, arrays = {}, {}, Empty(), _array_names(tree)
    shared = names_in(tree, ("view",))
    for _, name, dtype, shape, size, file, offset in _tensors_of(reader, request, tree):
        if size == 0:
            tensors[name], _ = empty.make(dtype, shape, name in arrays)
            continue
        if file not in files:
            with open(os.path.join(reader.path, file), "rb") as opened:
                # What is written to them stays in memory.
                files[file] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        data = np.frombuffer(files[file], np.uint8, size, offset)
        if name in shared and offset % 16:
            data = data.copy()  # Views of it may be of anything, and want it aligned.
        tensors[name] = tensor_over(data, dtype, shape, name in arrays)
    return tensors


def read(reader, request):
    """The state of an open checkpoint."""
    with without_collector():
        return _read(reader, request)


def _read(reader, request):
    tree = _tree_of(reader, request)
    if request.only is not None:
        tree = _Only(request.only).select(tree, reader.path)
    if request.into is not None:
        return _read_into(reader, request, tree)
    if request.mmap:
        tensors = _mapped(reader, request, tree)
    else:
        memory = _new_memory(reader, request, tree)
        tensors = memory.tensors
        reader.load(memory.indices, memory.addresses)
    return Builder(tensors, request.device).build(tree)


def _read_into(reader, request, tree):
    """Into the tensors of a state that is there; those that cannot be read into get a copy."""
    facts = {
        name: (dtype, tuple(shape))
        for _, name, dtype, shape, *_ in _tensors_of(reader, request, tree)
    }
    places = match(tree, request.into, facts)
    memory, empty, arrays = _Memory(), Empty(), _array_names(tree)
    direct, taken = {}, {}
    for node, target in places:
        address = address_in(node, target)
        if address is None:
            continue
        name = next(iter(node.values()))
        if facts[name][1] and taken.setdefault(address, name) != name:
            raise InvalidError(f"'{name}' and '{taken[address]}' are one tensor in the state given")
        direct.setdefault(name, (target, address))
    for index, name, dtype, shape, *_ in _tensors_of(reader, request, tree):
        room = direct.get(name) or empty.make(dtype, shape, name in arrays)
        memory.add(index, name, *room)
    request.touched = True
    reader.load(memory.indices, memory.addresses)
    builder = Builder(memory.tensors)
    try:
        for node, target in places:
            copy_into(target, builder.build(node))
    except (RuntimeError, ValueError, TypeError) as error:
        raise poisoned(reader.path, error) from error
    request.touched = False
    return Builder(memory.tensors, placed={id(node): target for node, target in places}).build(tree)


def poisoned(where, error):
    return PoisonedError(
        f"{where}: nothing could be loaded whole, and the tensors of into= were written to: "
        f"what they hold must not be used ({error})"
    )


def choose(candidates, request, step, where, agree):
    """The state of the newest candidate that can be read: (step, damage or None, how to open it).

    agree(topic, mine) tells all ranks what each has to say.
    """
    candidates = [one for one in candidates if step is None or one[0] == step]
    complaint = None
    for _, damage, open_reader, *_ in candidates:
        state, failure = None, None
        try:
            if damage is not None:
                raise CorruptError(damage)
            state = read(open_reader(), request)
        except PenstockError as error:
            failure = error
        final = _is_final(failure)
        answers = agree("load", "" if failure is None else f"{'!' if final else '?'}{failure}")
        if not any(answers):
            return state
        if final:
            raise failure
        wrong = "; ".join(f"rank {rank}: {text[1:]}" for rank, text in enumerate(answers) if text)
        if any(text.startswith("!") for text in answers):
            raise InvalidError(wrong)
        complaint = failure or CorruptError(wrong)
        print(f"penstock: {complaint}", file=sys.stderr)
    if request.touched:
        raise poisoned(where, complaint) from complaint
    if complaint is not None and step is not None:
        raise complaint
    what = "can be read" if candidates else "is there"
    which = "checkpoint" if step is None else f"checkpoint of step {step}"
    raise NotFoundError(f"{where}: no {which} {what}")


def _is_final(failure):
    """Whether it would be the same with every other checkpoint."""
    if failure is None:
        return False
    return failure.code == "no_memory" or isinstance(failure, (InvalidError, NoSuchTensor))
