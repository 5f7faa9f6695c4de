"""Volumes through mount(8) and /etc/fstab, in a mount namespace of their own: only there does
mount(8) find our helpers, and only there is anything mounted. Nothing of it stays on the machine.
"""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

import pytest
from mount_tools import PENSTOCK, is_alive, needs_fuse

pytestmark = [
    needs_fuse,
    pytest.mark.skipif(
        not all(map(shutil.which, ["unshare", "nsenter", "mount"])), reason="needs util-linux"
    ),
]
pytest_plugins = ["mounted_volume"]
HELPERS = ["mount.penstock", "mount.fuse.penstock"]

# A folder in the place of /sbin, with the helpers beside what is there. Nothing must be written to
# the machine, whose root may be read-only: so links to the old one, on a tmpfs.
PREPARE = r"""
set -eu
sbin=$(readlink -f /sbin)
mkdir "$1/old" "$1/new"
mount --bind "$sbin" "$1/old"
mount -t tmpfs none "$1/new"
cd "$1/old"
for name in *; do ln -s "$1/old/$name" "$1/new/$name"; done
for name in $3; do ln -sf "$2" "$1/new/$name"; done
mount --bind "$1/new" "$sbin"
"""


class Space:
    """A mount namespace, for as long as the process in it lives."""

    def __init__(self, volume, scratch, helpers):
        self.volume = volume
        self.folder = volume.folder
        # It ends with us, however we end: then its input does.
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo in; read end"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.holder.stdout.readline() == b"in\n"
        self.run("sh", "-c", PREPARE, "sh", scratch, PENSTOCK, " ".join(helpers))

    def run(self, *command, check=True, home=True):
        environment = {**os.environ, "PENSTOCK_HOME": str(self.volume.home)}
        if not home:
            del environment["PENSTOCK_HOME"]
        done = subprocess.run(
            ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment,
        )
        assert not check or done.returncode == 0, (command, done, self.volume.log())
        return done

    def inside(self, path):
        """The path, as it is seen in there."""
        return pathlib.Path(f"/proc/{self.holder.pid}/root{path}")

    def mounts(self):
        """Those of ours: source, folder, type, options."""
        with open(f"/proc/{self.holder.pid}/mounts", encoding="utf-8") as table:
            lines = [line.split(" ")[:4] for line in table]
        return [
            (source, folder, kind, set(options.split(",")))
            for source, folder, kind, options in lines
            if kind == "fuse.penstock" and folder.startswith(str(self.folder.parent))
        ]

    def status(self, folder=None):
        place = self.inside(folder or self.folder)
        return json.loads(os.getxattr(place, "system.penstock.status"))

    def close(self):
        for _, folder, _, _ in reversed(self.mounts()):
            with contextlib.suppress(OSError, ValueError, KeyError):
                os.kill(self.status(folder)["pid"], signal.SIGTERM)
                eventually(lambda at=folder: at not in [mount[1] for mount in self.mounts()])
            self.run("umount", "-l", folder, check=False)
        self.holder.communicate(b"\n", timeout=20)


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def space(volume, tmp_path):
    yield from space_with(volume, tmp_path, HELPERS)


def space_with(volume, tmp_path, helpers):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = Space(volume, scratch, helpers)
    yield made
    made.close()
    # The machine is as it was.
    assert not any(os.path.exists(f"/sbin/{name}") for name in HELPERS if name not in BEFORE)
    assert str(tmp_path) not in pathlib.Path("/proc/self/mounts").read_text()


BEFORE = [name for name in HELPERS if os.path.exists(f"/sbin/{name}")]


@pytest.mark.parametrize("kind", ["penstock", "fuse.penstock"])
def test_mount_by_type(space, kind):
    space.run("mount", "-t", kind, "train", space.folder)
    [(source, folder, shown, options)] = space.mounts()
    assert (source, folder, shown) == ("train", str(space.folder), "fuse.penstock")
    assert "rw" in options
    pid = space.status()["pid"]
    (space.inside(space.folder) / "file").write_text("x")
    space.run("umount", space.folder)
    eventually(lambda: not is_alive(pid))
    assert space.mounts() == []


@pytest.mark.parametrize("kind", ["penstock", "fuse.penstock"])
def test_options_arrive(space, kind):
    space.run("mount", "-t", kind, "-o", "noatime,ro,noexec,memory=128MiB", "train", space.folder)
    [(_, _, _, options)] = space.mounts()
    assert {"ro", "noatime", "noexec"} <= options
    assert space.status()["read_only"]
    space.run("umount", space.folder)


def test_a_volume_by_its_directory(space):
    space.run("mount", "-t", "penstock", space.volume.host, space.folder)
    assert space.mounts()[0][0] == str(space.volume.host)
    space.run("umount", space.folder)


def test_fstab(space, tmp_path):
    then = tmp_path / "then"
    then.mkdir()
    table = tmp_path / "fstab"
    table.write_text(
        "# As in docs/VOLUMES.md\n"
        f"train {space.folder} fuse.penstock noatime,nofail,_netdev,x-systemd.automount 0 0\n"
        f"train {then} penstock ro,noauto,user,x-systemd.requires=network.target 0 0\n"
    )
    space.run("mount", "-a", "-T", table)
    [(source, folder, _, options)] = space.mounts()
    assert (source, folder) == ("train", str(space.folder)) and "noatime" in options
    (space.inside(space.folder) / "file").write_text("x")
    space.run("mount", "-a", "-T", table)  # It is there already.
    assert len(space.mounts()) == 1
    # By its folder alone, beside the other.
    space.run("mount", "-T", table, then)
    assert [mount[1] for mount in space.mounts()] == [str(space.folder), str(then)]
    assert (space.inside(then) / "file").read_text() == "x"
    pid = space.status()["pid"]
    space.run("umount", then)
    space.run("umount", space.folder)
    eventually(lambda: not is_alive(pid))
    space.run("mount", "-a", "-T", table)
    assert (space.inside(space.folder) / "file").read_text() == "x"


def test_volumes_of_root_are_found_by_name(space):
    """As at boot, where nothing says where its home is."""
    folder = pwd.getpwuid(0).pw_dir
    if PENSTOCK.startswith(folder + "/") or str(space.folder).startswith(folder + "/"):
        pytest.skip("what is tested lies in the home of root")
    script = 'mount -t tmpfs none "$1"; mkdir "$1/.penstock"; mount --bind "$2" "$1/.penstock"'
    space.run("sh", "-euc", script, "sh", folder, space.volume.home)
    space.run("mount", "-t", "penstock", "train", space.folder, home=False)
    assert space.mounts()[0][0] == "train"


def test_what_is_wrong_is_said(space, tmp_path):
    done = space.run("mount", "-t", "penstock", "missing", space.folder, check=False)
    assert done.returncode != 0 and "missing" in done.stderr
    done = space.run("mount", "-t", "penstock", "-o", "rq", "train", space.folder, check=False)
    assert done.returncode != 0 and "rq" in done.stderr
    table = tmp_path / "fstab"
    table.write_text(f"missing {space.folder} penstock nofail 0 0\n")
    space.run("mount", "-a", "-T", table, check=False)
    assert space.mounts() == []


def test_as_if(space):
    space.run("mount", "-f", "-t", "penstock", "train", space.folder)
    assert space.mounts() == []
    space.run("mount", "-v", "-t", "penstock", "train", space.folder)
    assert len(space.mounts()) == 1


def test_without_our_helper_that_of_fuse_finds_the_program(volume, tmp_path):
    if not os.path.exists("/sbin/mount.fuse"):
        pytest.skip("needs mount.fuse (package fuse3)")
    # It has a PATH of its own, with /sbin in it.
    for space in space_with(volume, tmp_path, ["penstock"]):
        space.run("mount", "-t", "fuse.penstock", "-o", "noatime,ro", "train", space.folder)
        [(source, _, kind, options)] = space.mounts()
        assert (source, kind) == ("train", "fuse.penstock") and {"noatime", "ro"} <= options


def test_who_sees_other_mounts_is_told_where_to_mount(space, tmp_path):
    """As from outside of a container."""
    space.run("mount", "-t", "penstock", "train", space.folder)
    (tmp_path / "other").mkdir()
    done = space.volume.run("mount", "train", tmp_path / "other", "--ro", check=False)
    assert done.returncode == 1 and "nsenter" in done.stderr
    assert len(space.mounts()) == 1
