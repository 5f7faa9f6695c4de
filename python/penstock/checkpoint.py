"""Checkpoints: saved while training goes on, whole or not at all, verified when they are loaded.

>>> with penstock.Checkpointer("/nvme/run1", keep_last=3) as ckpt:
...     state = ckpt.load() if ckpt.steps() else None
...     handle = ckpt.save(step, {"model": model.state_dict(), "optim": optim.state_dict()})
...     handle.durable()     # waits; without it, training goes on
"""

import atexit
import contextlib
import functools
import json
import os
import platform
import re
import signal
import sys
import time
import weakref

from . import _native
from ._drag import Drag
from ._errors import ExistsError, InvalidError, NotFoundError, PenstockError
from ._loading import Request, choose, poisoned, read
from .tree import flatten

_WHEN_BUSY = ("wait", "skip", "queue")


class Tier:
    """A second place for checkpoints that keeps more, or fewer, than the first.

    >>> far = Tier("s3://bucket/run1", keep_every=1000)
    >>> Checkpointer("/nvme/run1", keep_last=3, replicate=[far])
    """

    def __init__(self, path, *, keep_last=None, keep_every=None):
        self.path = os.fspath(path)
        self.keep_last = _count("keep_last", keep_last)
        self.keep_every = _count("keep_every", keep_every)

    def __repr__(self):
        return (
            f"penstock.Tier({self.path!r}, keep_last={self.keep_last or None}, "
            f"keep_every={self.keep_every or None})"
        )


class SaveHandle:
    """A save under way. What went wrong comes out of `durable()`, or of the next `save()`, or of
    `close()`: of the first of them."""

    def __init__(self, native, step):
        self._native = native
        self.step = step

    def staged(self):
        """At once: `save()` returns when the copy is made."""

    def durable(self, timeout=None):
        """Waits until it survives a power cut. TimedOutError after `timeout` s: it goes on."""
        self._native.durable(timeout)

    def replicated(self, timeout=None):
        """Waits until it is durable in all the places of `replicate` too."""
        self._native.replicated(timeout)

    @property
    def done(self):
        """Whether nothing is left to be done: it is in all places, has failed or was skipped."""
        return self._native.done

    @property
    def skipped(self):
        return self._native.report()["skipped"]

    def report(self):
        """What it cost: bytes, and seconds of stall, copy and until it was durable."""
        return self._native.report()

    def __repr__(self):
        return f"<penstock.SaveHandle of step {self.step}: {'done' if self.done else 'under way'}>"


class Checkpointer:
    """Saves the state of a training run to a directory, and finds it again.

    keep_last, keep_every: the last so many stay, and every step that is a multiple of keep_every;
    the newest always, all where neither is given.
    when_busy: "wait", "skip" or "queue", while an earlier save is not durable yet.
    arena_bytes: memory for copies; None: as much as the state needs, so that save() never waits for
    the disk. max_bandwidth: bytes a second, for drives that slow down when written too fast.
    replicate: directories, "s3://…", "pen://…" or Tier(…), to which each checkpoint is copied when
    it is durable, and from which load() takes what the first place has lost. replicate_bandwidth:
    bytes a second.
    incremental: files whose tensors are as in the checkpoint before are linked to it, not written.
    sha256sums: a file SHA256SUMS beside the others, for `sha256sum -c`.
    ranks: several processes save each checkpoint together, each its own state, to a directory that
    all of them see. "torch": as torch.distributed numbers them; or (rank, count). rank_timeout: so
    many seconds they wait for each other.
    """

    def __init__(
        self,
        directory,
        *,
        replicate=(),
        keep_last=None,
        keep_every=None,
        when_busy="wait",
        arena_bytes=None,
        max_bandwidth=None,
        max_threads=None,
        replicate_bandwidth=None,
        incremental=False,
        sha256sums=False,
        ranks=None,
        rank_timeout=600.0,
    ):
        if when_busy not in _WHEN_BUSY:
            raise InvalidError(f"when_busy={when_busy!r}: wait, skip or queue")
        self.directory = os.fspath(directory)
        if "://" in str(self.directory):
            raise InvalidError(
                f"{self.directory}: the first place is a directory; others go into replicate="
            )
        single = isinstance(replicate, (str, os.PathLike, Tier))
        tiers = [_tier(place) for place in ([replicate] if single else replicate)]
        self.replicate = [tier[0] for tier in tiers]
        self._group, self.rank, self.ranks = _find_ranks(ranks)
        if self.ranks > 1 and when_busy == "skip":
            raise InvalidError("when_busy='skip': ranks could differ in what they skip")
        here = os.path.abspath(self.directory)
        if any("://" not in place and os.path.abspath(place) == here for place in self.replicate):
            raise InvalidError(f"replicate={self.directory!r}: that is the first place")
        self._options = {
            "arena_bytes": _whole("arena_bytes", arena_bytes),
            "when_busy": _WHEN_BUSY.index(when_busy),
            "keep_last": _count("keep_last", keep_last),
            "keep_every": _count("keep_every", keep_every),
            "max_bandwidth": _whole("max_bandwidth", max_bandwidth),
            "threads": _whole("max_threads", max_threads, most=1024),
            "replicate": tiers,
            "replicate_bandwidth": _whole("replicate_bandwidth", replicate_bandwidth),
            "incremental": bool(incremental),
            "sha256sums": bool(sha256sums),
            "rank": self.rank,
            "ranks": self.ranks,
            "rank_timeout": float(rank_timeout),
        }
        self._native = None  # Opened by the first save: who only loads needs no lease.
        self._closed = False
        self._last = None
        self._saves = []
        self._drag = Drag(self._is_writing)
        _open_ones.add(self)

    def _open(self):
        """The engine. With several ranks all must come here together."""
        if self._native is None:
            options = {**self._options, "program": _program()}
            if self._group is None:
                self._native = _native.open_checkpointer(self.directory, options)
            else:
                self._native = _open_with_group(self._group, self.directory, options)
        return self._native

    def save(self, step, state, metadata=None):
        """Copies all tensors of `state`, then returns; writes in the background."""
        if self._closed:
            raise InvalidError("this Checkpointer is closed")
        step = _check_step(step)
        begun = time.perf_counter()
        native = save_state(self._open(), step, state, metadata)
        self._drag.stalled(time.perf_counter() - begun)
        self._last = SaveHandle(native, step)
        self._saves = [*self._saves[-99:], self._last]
        return self._last

    def load(self, step=None, *, device=None, only=None, mmap=False, into=None, rank=None):
        """The state of `step`, or of the newest that is whole; every byte is verified.

        only: a pattern, or several, of names ("model.*"): the rest is left out, and not read.
        mmap: tensors over the files: nothing is read, or verified, before it is used.
        into: a state like the one saved, whose tensors are read into; what is returned consists of
        them. Where that fails midway, and nothing else can be loaded, the exception is a
        PoisonedError: the tensors are then not to be used.
        rank: the part of that rank, of a checkpoint that several saved.
        With several ranks all must call it, and all load the same step.
        """
        step = None if step is None else _check_step(step)
        request = Request(
            rank=self.rank if rank is None else rank,
            ranks=self.ranks if rank is None else None,
            device=device,
            only=only,
            into=into,
            use_mmap=mmap,
        )
        where = ", ".join([self.directory, *self.replicate])
        if self.ranks == 1 or rank is not None:
            return choose(self._candidates(), request, step, where, lambda topic, mine: [mine])
        # Rank 0 sees which there are; each tries its own part of them.
        mine = [[one[0], one[1], one[3]] for one in self._candidates()] if self.rank == 0 else []
        listed = json.loads(self._open().exchange("candidates", json.dumps(mine))[0])
        candidates = [(*one[:2], functools.partial(self._open_at, *one)) for one in listed]
        return choose(candidates, request, step, where, self._open().exchange)

    def _open_at(self, step, damage, place):
        """Of the first place (0), or of one that it is copied to."""
        if place == 0:
            return _native.open_checkpoint(self.directory, step)
        return _native.open_replica(self.replicate[place - 1]).open(step)

    def _candidates(self):
        """(step, what is wrong with it or None, how to open it, place); newest, nearest first."""
        found = []
        if os.path.lexists(self.directory):
            for step, damage in _native.list_checkpoints(self.directory):
                found.append((step, damage, 0))
        for number, place in enumerate(self.replicate, 1):
            try:
                steps = _native.open_replica(place).steps()
            except PenstockError as error:
                print(f"penstock: {place} cannot be asked: {error}", file=sys.stderr)
                continue
            found += [(step, None, number) for step in steps]
        found.sort(key=lambda one: (-one[0], one[2]))
        return [
            (step, damage, functools.partial(self._open_at, step, damage, place), place)
            for step, damage, place in found
        ]

    def steps(self):
        """Steps that are there and not known to be damaged, here or in a second place."""
        return sorted({one[0] for one in self._candidates() if one[1] is None})

    def step_done(self):
        """To be called after each training step, so that report() can tell what writing costs."""
        self._drag.step()

    def _is_writing(self):
        return any(not save.done for save in self._saves[-2:])

    def report(self):
        """What saving has cost so far: seconds of stall, bytes a second, drag on the steps."""
        saves = [save.report() for save in self._saves]
        durable = [one for one in saves if one["durable"] > 0]
        written = sum(one["bytes"] - one["linked_bytes"] for one in durable)
        seconds = sum(one["durable"] for one in durable)
        return {
            "saves": len(saves),
            "durable": len(durable),
            "under_way": sum(not save.done for save in self._saves),
            "stall_seconds": [one["stall"] for one in saves],
            "durable_seconds": [one["durable"] for one in durable],
            "bytes_written": written,
            "bytes_per_second": written / seconds if seconds else None,
            **self._drag.report(),
        }

    def on_sigterm(self, save):
        """Calls `save()` when the process is told to end, waits until all is durable, and ends."""

        def handler(signum, frame):
            try:
                with contextlib.suppress(ExistsError):  # That step was saved, or is being saved.
                    save()
                self.close()
            except Exception as error:
                print(f"penstock: a checkpoint was not saved: {error}", file=sys.stderr)
            finally:
                signal.signal(signum, signal.SIG_DFL)
                os.kill(os.getpid(), signum)

        signal.signal(signal.SIGTERM, handler)

    def close(self):
        """Waits for what is being written. Raises what nobody has seen."""
        if self._closed:
            return
        self._closed = True
        _open_ones.discard(self)
        if self._native is None:
            return
        self._say_what_takes_long()
        self._native.close()

    def _say_what_takes_long(self):
        for _ in range(100):
            if self._last is None or self._last.done:
                return
            time.sleep(0.01)
        print(
            f"penstock: waiting until the checkpoint of step {self._last.step} is durable",
            file=sys.stderr,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def load(path, *, device=None, only=None, mmap=False, into=None, rank=0):
    """The state of one checkpoint, by its own path. The rest as in Checkpointer.load()."""
    request = Request(rank=rank, ranks=None, device=device, only=only, into=into, use_mmap=mmap)
    try:
        return read(_open_path(os.fspath(path)), request)
    except PenstockError as error:
        if request.touched:
            raise poisoned(path, error) from error
        raise


def _open_path(path):
    if "://" in path:
        run, _, name = path.rstrip("/").rpartition("/")
        if not re.fullmatch(r"step-\d{10,}", name):
            raise InvalidError(f"{path}: one checkpoint is meant, like {path.rstrip('/')}/step-…")
        return _native.open_replica(run).open(int(name[5:]))
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "manifest.json")):
        names = sorted(name for name in os.listdir(path) if name.startswith("step-"))
        if names:
            raise InvalidError(
                f"{path} is a run: load one of its checkpoints, like {names[-1]}, or the newest "
                f"with penstock.Checkpointer({path!r}).load()"
            )
        if os.path.exists(os.path.join(path, ".metadata")):
            raise InvalidError(
                f"{path} was written by torch.distributed.checkpoint: dcp.load does it"
            )
        raise NotFoundError(f"{path}: no checkpoint is there")
    if os.path.isfile(path):
        raise InvalidError(
            f"{path} is a file: a checkpoint is a directory with manifest.json in it"
        )
    return _native.open_checkpoint_at(path)


def _check_step(step):
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise InvalidError(f"step={step!r}: a whole number, 0 or more")
    return _whole("step", step.__index__())


def save_state(native, step, state, metadata=None, *, name="", replace=False, attempt=""):
    """Hands a state to an engine."""
    told = {str(key): str(value) for key, value in (metadata or {}).items()}
    try:
        flat = flatten(state)
    except BaseException as error:
        if not attempt:
            native.refuse(str(error) or type(error).__name__)
        raise
    return native.save(step, flat, told, name, replace, attempt)


def _whole(name, value, most=(1 << 63) - 1):
    """A whole number, also if it is written as 1e9; 0 for None."""
    try:
        number = 0 if value is None else int(value)
        right = value is None or (number == value and 0 <= number <= most)
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right:
        raise InvalidError(f"{name}={value!r}: a whole number, 0 to {most}")
    return number


def _count(name, value):
    if value is not None and _whole(name, value) < 1:
        raise InvalidError(f"{name}={value}: at least 1, or None to keep all")
    return _whole(name, value)


def _tier(place):
    """(address, whether it keeps otherwise than the first place, keep_last, keep_every)"""
    if isinstance(place, Tier):
        return place.path, True, place.keep_last, place.keep_every
    if not isinstance(place, (str, os.PathLike)):
        raise InvalidError(f"replicate={place!r}: a path, 's3://…', 'pen://…' or a penstock.Tier")
    return os.fspath(place), False, 0, 0


def _program():
    """What manifests say that they were written by."""
    parts = [f"penstock {_native.version}", f"python {platform.python_version()}"]
    for module in ("torch", "numpy"):
        if module in sys.modules:
            parts.append(f"{module} {sys.modules[module].__version__}")
    return ", ".join(parts)


def _find_ranks(ranks):
    """(process group or None, rank, count)"""
    if ranks is None:
        return None, 0, 1
    if ranks == "torch":
        import torch.distributed as dist

        if not dist.is_initialized():
            raise InvalidError("ranks='torch': torch.distributed.init_process_group comes first")
        return dist, dist.get_rank(), dist.get_world_size()
    try:
        rank, count = (int(number) for number in ranks)
    except (TypeError, ValueError):
        raise InvalidError(f"ranks={ranks!r}: 'torch', or (rank, count)") from None
    if not 0 <= rank < count:
        raise InvalidError(f"ranks={ranks!r}: rank {rank} of {count} is none")
    return None, rank, count


def _open_with_group(dist, directory, options):
    """Rank 0 takes the lease and tells the others of it: or what kept it from that."""
    native, told = None, [None]
    if options["rank"] == 0:
        options["run"] = _native.make_run_id()
        try:
            native = _native.open_checkpointer(directory, options)
            told = [("run", options["run"])]
        except PenstockError as error:
            dist.broadcast_object_list([("error", str(error))], src=0)
            raise
    dist.broadcast_object_list(told, src=0)
    kind, text = told[0]
    if kind == "error":
        raise PenstockError(f"rank 0: {text}")
    if native is None:
        native = _native.open_checkpointer(directory, {**options, "run": text})
    return native


_open_ones = weakref.WeakSet()


@atexit.register
def _close_all():
    for one in list(_open_ones):
        try:
            one.close()
        except Exception as error:
            print(f"penstock: a checkpoint was not saved: {error}", file=sys.stderr)
