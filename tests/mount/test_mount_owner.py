"""To whom a volume belongs."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from mount_tools import PENSTOCK, Volume, needs_fuse

pytestmark = needs_fuse
NOBODY = 65534


@pytest.fixture
def place():
    """A folder of somebody who is not root, with the program in it."""
    folder = pathlib.Path(tempfile.mkdtemp())
    os.chown(folder, NOBODY, NOBODY)
    shutil.copy(PENSTOCK, folder / "penstock")
    yield folder
    shutil.rmtree(folder)


def test_the_root_belongs_to_who_made_the_volume(place, tmp_path):
    environment = {**os.environ, "PENSTOCK_HOME": str(place / "home"), "HOME": str(place)}
    command = [place / "penstock", "volume", "create", "train"]
    subprocess.run(command, check=True, env=environment, user=NOBODY, group=NOBODY, extra_groups=[])
    volume = Volume(place / "home", tmp_path / "mnt")
    try:
        volume.mount()
        root = os.stat(volume.folder)
        assert (root.st_uid, root.st_gid, root.st_mode & 0o777) == (NOBODY, NOBODY, 0o755)
        volume.umount()
    finally:
        volume.close()


def test_that_of_root_to_root(tmp_path):
    volume = Volume(tmp_path / "home", tmp_path / "mnt").create()
    try:
        volume.mount()
        root = os.stat(volume.folder)
        assert (root.st_uid, root.st_gid) == (0, 0)
    finally:
        volume.close()
