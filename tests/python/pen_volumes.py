"""Volumes for tests, made by the command as people do: a plugin of pytest."""

import subprocess

import pytest
from conftest import BUILD

PENSTOCK = str(BUILD / "src/cli/penstock")


class Volumes:
    """Those of a home of its own, which this process uses too."""

    def run(self, *words, code=0):
        command = [PENSTOCK, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def create(self, name, *options):
        self.run("volume", "create", name, *options)
        return f"pen://{name}"

    def fill(self, address, folder):
        """Copies a folder there."""
        self.run("sync", folder, address)
        return address

    def files(self, address, folder):
        """What is there, copied to a folder and listed."""
        self.run("sync", address, folder)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def volumes(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "volumes-home"))
    return Volumes()
