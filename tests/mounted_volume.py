"""A plugin of pytest: `pytest_plugins = ["mounted_volume"]` in a test file brings the fixtures
`home`, `volume` (made, not mounted) and `mounted` (its folder, mounted).
"""

import pytest
from mount_tools import Volume


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def volume(home, tmp_path):
    made = Volume(home, tmp_path / "mnt")
    yield made.create()
    made.close()


@pytest.fixture
def mounted(volume):
    volume.mount()
    return volume.folder
