"""Penstock behind Lightning's Trainer.

>>> trainer = Trainer(plugins=[penstock.lightning.CheckpointIO()])

Saves return when the state is copied. A checkpoint, `epoch=3-step=100.ckpt`, is a directory, there
whole or not at all; the one before is removed only when it is durable.
"""

import os

from . import _native
from ._errors import InvalidError
from .checkpoint import _program, load, save_state

try:
    from lightning.pytorch.plugins.io import CheckpointIO as _CheckpointIO
except ImportError:
    from pytorch_lightning.plugins.io import CheckpointIO as _CheckpointIO


class CheckpointIO(_CheckpointIO):
    """arena_bytes: memory for copies; None: as much as the state needs, so that training never
    waits for the disk. max_bandwidth: bytes a second. incremental and sha256sums as
    in Checkpointer."""

    def __init__(
        self,
        *,
        arena_bytes=None,
        max_bandwidth=None,
        max_threads=None,
        incremental=False,
        sha256sums=False,
    ):
        self._options = {
            "arena_bytes": arena_bytes or 0,
            "max_bandwidth": max_bandwidth or 0,
            "threads": max_threads or 0,
            "incremental": bool(incremental),
            "sha256sums": bool(sha256sums),
        }
        self._natives = {}  # By directory.

    def __getstate__(self):
        return {**self.__dict__, "_natives": {}}

    def _open(self, path):
        """The engine for a path's directory, and the path's name in it."""
        path = os.path.abspath(os.fspath(path))
        directory, name = os.path.split(path)
        if directory not in self._natives:
            options = {**self._options, "program": _program()}
            self._natives[directory] = _native.open_checkpointer(directory, options)
        return self._natives[directory], name

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        if storage_options is not None:
            raise InvalidError("penstock.lightning.CheckpointIO has no storage_options")
        native, name = self._open(path)
        step = checkpoint.get("global_step", 0) if isinstance(checkpoint, dict) else 0
        save_state(native, step, checkpoint, name=name, replace=True)

    def load_checkpoint(self, path, map_location=None, weights_only=None):
        """Nothing of it is pickle: it is as safe with weights_only=False."""
        if callable(map_location) or isinstance(map_location, dict):
            raise InvalidError("map_location: a device, or None")
        self._drain()
        return load(path, device=map_location)

    def remove_checkpoint(self, path):
        native, name = self._open(path)
        if os.path.lexists(os.path.abspath(os.fspath(path))):
            native.remove(name)

    def _drain(self):
        """Until all that was saved is there."""
        for native in self._natives.values():
            native.drain()

    def teardown(self):
        natives, self._natives = self._natives, {}
        for native in natives.values():
            native.close()
