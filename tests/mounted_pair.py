"""A plugin of pytest: `pytest_plugins = ["mounted_pair"]` in a test file brings the fixture `pair`:
(folder of a mounted volume, folder of the machine's own file system), for all tests of that file.
"""

import os
import shutil

import pytest
from mount_tools import Volume
from posix_pair import require_peer


@pytest.fixture(scope="module")
def pair(request, tmp_path_factory):
    options = getattr(request, "param", ())
    base = tmp_path_factory.mktemp("gathered" if options else "pair")
    require_peer(base)
    theirs = base / "theirs"
    theirs.mkdir()
    volume = Volume(base / "home", base / "mnt").create()
    try:
        volume.mount(*options)
        os.umask(0o022)
        yield volume.folder, theirs
    finally:
        os.chdir("/")
        volume.close()
        shutil.rmtree(theirs, ignore_errors=True)
