"""Processors are kept awake while many requests come to a mount, and only then."""

import contextlib
import os
import time

import pytest
from mount_tools import needs_fuse

pytest_plugins = ["mounted_volume"]
DEVICE = "/dev/cpu_dma_latency"
pytestmark = [
    needs_fuse,
    pytest.mark.skipif(not os.access(DEVICE, os.W_OK), reason=f"there is no {DEVICE} to ask"),
]


def is_held(pid):
    for file in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # Closed since.
            if os.readlink(f"/proc/{pid}/fd/{file}") == DEVICE:
                return True
    return False


def becomes(condition, seconds, meanwhile):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        meanwhile()
    return True


def burst(folder):
    for _ in range(200):
        os.statvfs(folder)  # No kernel keeps the answer.


def test_asked_for_in_a_burst_and_given_up_after_it(volume):
    pid = volume.mount()["pid"]
    assert not is_held(pid)
    assert becomes(lambda: is_held(pid), 20, lambda: burst(volume.folder))
    assert becomes(lambda: not is_held(pid), 20, lambda: time.sleep(0.05))


def test_not_at_all_when_they_are_to_sleep(volume):
    pid = volume.mount("--let-sleep")["pid"]
    assert not becomes(lambda: is_held(pid), 1, lambda: burst(volume.folder))
