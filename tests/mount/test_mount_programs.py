"""Programs that people use, on a real mount."""

import hashlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest
from mount_tools import needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, cwd=None, timeout=300):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program}")


def digest(folder):
    total = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        total.update(os.fsencode(path.relative_to(folder)))
        if path.is_file() and not path.is_symlink():
            total.update(path.read_bytes())
    return total.hexdigest()


@needs("git")
def test_git(volume, mounted):
    run("git", "clone", "-q", "--no-hardlinks", ROOT, mounted / "clone")
    run("git", "fsck", "--full", cwd=mounted / "clone")
    volume.remount()
    assert run("git", "status", "--porcelain", cwd=mounted / "clone") == ""
    (mounted / "clone/new file").write_text("x")
    run("git", "add", "-A", cwd=mounted / "clone")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    run("git", *who, "commit", "-qm", "x", cwd=mounted / "clone")
    run("git", "gc", "-q", cwd=mounted / "clone")
    run("git", "fsck", "--full", cwd=mounted / "clone")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_sqlite(volume, mounted, mode):
    with sqlite3.connect(mounted / "x.db") as database:
        assert database.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
        database.execute("create table t (a integer primary key, b blob)")
        for number in range(200):
            database.execute("insert into t values (?, ?)", (number, os.urandom(3000)))
            if number % 20 == 0:
                database.commit()
    database.close()
    volume.remount()
    database = sqlite3.connect(mounted / "x.db")
    assert database.execute("select count(*) from t").fetchone() == (200,)
    assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()


@needs("tar")
def test_tar(volume, mounted):
    run("tar", "-C", ROOT, "-cf", mounted / "x.tar", "src", "include")
    (mounted / "out").mkdir()
    run("tar", "-C", mounted / "out", "-xpf", mounted / "x.tar")
    volume.remount()
    run("tar", "-C", mounted / "out", "--compare", "-f", mounted / "x.tar")
    assert digest(mounted / "out/src") == digest(ROOT / "src")


@needs("rsync")
def test_rsync(volume, mounted):
    command = ("rsync", "-aHAX", "--delete", "--itemize-changes", f"{ROOT}/src/", mounted / "src/")
    run(*command)
    volume.remount()
    assert run(*command) == "", "nothing is left to do"
    assert digest(mounted / "src") == digest(ROOT / "src")


@needs("gcc")
def test_gcc(mounted):
    for number in range(5):
        (mounted / f"{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n")
    calls = " + ".join(f"f{number}()" for number in range(5))
    declared = "".join(f"int f{number}(void);\n" for number in range(5))
    (mounted / "main.c").write_text(f"{declared}int main(void) {{ return {calls} - 10; }}\n")
    sources = [path.name for path in mounted.glob("*.c")]
    run("gcc", "-g", "-o", "program", *sources, cwd=mounted)
    run(mounted / "program")
    run("gcc", "-c", *sources, cwd=mounted)
    run("ar", "rcs", "all.a", *[name.replace(".c", ".o") for name in sources], cwd=mounted)


def test_python_imports_and_its_own_cache(volume, mounted):
    (mounted / "package").mkdir()
    (mounted / "package/__init__.py").write_text("value = 5\n")
    code = "import package; assert package.value == 5"
    for _ in range(2):
        run(
            "env",
            "-u",
            "PYTHONDONTWRITEBYTECODE",
            f"PYTHONPATH={mounted}",
            sys.executable,
            "-c",
            code,
        )
        volume.remount()
    assert list((mounted / "package/__pycache__").iterdir())


def test_cp_of_a_file_that_is_still_written(mounted):
    """cp asks where data is: what the kernel holds counts."""
    with open(mounted / "open", "wb", buffering=0) as file:
        os.pwrite(file.fileno(), b"x" * 100_000, 1 << 20)
        run("cp", mounted / "open", mounted / "copy")
    assert (mounted / "copy").read_bytes() == bytes(1 << 20) + b"x" * 100_000
