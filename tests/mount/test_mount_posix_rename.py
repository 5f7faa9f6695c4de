"""rename() of everything over everything, beside ext4."""

import os

import pytest
from mount_tools import needs_fuse
from posix_pair import census, compare, facts, folder, make, renameat2, tried

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

KINDS = ("file", "folder", "full", "fifo", "socket", "char", "block", "link", "dangling", "none")
NOREPLACE, EXCHANGE = 1, 2


@pytest.mark.parametrize("flags", [0, NOREPLACE, EXCHANGE, NOREPLACE | EXCHANGE, 64])
def test_every_pair_of_kinds(pair, flags):
    def pairs():
        seen = {}
        for one in KINDS:
            for other in KINDS:
                for same in (True, False):
                    with folder(str(len(seen))):
                        os.mkdir("there")
                        target = "b" if same else "there/b"
                        make(one, "a")
                        make(other, target)
                        number = os.lstat("a").st_ino if one != "none" else 0
                        got = tried(renameat2, "a", target, flags)
                        moved = facts(target) if got != "ok" else os.lstat(target).st_ino == number
                        where = "here" if same else "elsewhere"
                        key = f"{one} over {other} {where}"
                        seen[key] = {"got": got, "moved": moved, **census()}
        return seen

    pairs.__name__ = f"pairs_{flags}"
    compare(pair, pairs)


def test_names_of_one_file(pair):
    def links():
        seen = {}
        for flags in (0, NOREPLACE, EXCHANGE):
            with folder(str(flags)):
                make("file", "a")
                os.mkdir("there")
                os.link("a", "b")
                os.link("a", "there/c")
                seen[f"here {flags}"] = (tried(renameat2, "a", "b", flags), census())
                seen[f"there {flags}"] = (tried(renameat2, "a", "there/c", flags), census())
                seen[f"itself {flags}"] = (tried(renameat2, "b", "b", flags), census())
                seen[f"folder {flags}"] = (tried(renameat2, "there", "there", flags), census())
        return seen

    compare(pair, links)


def test_a_directory_below_itself(pair):
    def below():
        seen = {}
        names = ("a", "a/b", "a/b/c", "a/b/c/d")
        for flags in (0, NOREPLACE, EXCHANGE):
            for old in names:
                for new in (*names, "a/new", "a/b/new", "a/b/c/new", "a/b/c/d/new", "other/new"):
                    with folder(str(len(seen))):
                        os.makedirs("a/b/c/d")
                        os.mkdir("other")
                        seen[f"{old} to {new} {flags}"] = (
                            tried(renameat2, old, new, flags),
                            census(),
                        )
        return seen

    compare(pair, below)


def test_what_cannot_be_renamed(pair):
    def all_names():
        seen = {}
        names = (".", "..", "a/.", "a/..", "file/.", "new", "file", "a")
        for old in names:
            for new in names:
                with folder(str(len(seen))):
                    os.mkdir("a")
                    make("file", "file")
                    seen[f"{old} to {new}"] = (tried(os.rename, old, new), census())
        return seen

    compare(pair, all_names)


def test_the_parent_of_what_was_moved(pair):
    def moved():
        os.makedirs("a/b/c")
        os.mkdir("other")
        with open("a/b/c/file", "w", encoding="utf-8") as file:
            file.write("x")
        os.chdir("a/b/c")
        os.rename("../../b", "../../../other/moved")
        seen = {
            "cwd": os.getcwd().endswith("/other/moved/c"),
            "..": os.path.basename(os.path.realpath("..")),
            "file": facts("file"),
            "old": tried(os.stat, "../../../a/b"),
        }
        os.chdir("../../..")
        seen["all"] = census()
        return seen

    compare(pair, moved)


def test_what_is_open_is_renamed_and_replaced(pair):
    def open_ones():
        seen = {}
        for flags in (0, EXCHANGE):
            with folder(str(flags)):
                with open("a", "w+b", buffering=0) as a, open("b", "w+b", buffering=0) as b:
                    a.write(b"a")
                    b.write(b"b")
                    renameat2("a", "b", flags)
                    seen[f"links {flags}"] = [os.fstat(file.fileno()).st_nlink for file in (a, b)]
                    a.write(b"aa")
                    b.write(b"bb")
                    seen[f"read {flags}"] = [os.pread(file.fileno(), 9, 0) for file in (a, b)]
                    names = sorted(os.listdir())
                    seen[f"named {flags}"] = {name: open(name, "rb").read() for name in names}
                    os.truncate("b", 1)
                    seen[f"cut {flags}"] = [os.fstat(file.fileno()).st_size for file in (a, b)]
        return seen

    compare(pair, open_ones)


def test_to_another_file_system(pair):
    def across():
        make("file", "a")
        os.mkdir("d")
        os.symlink("x", "l")
        there = f"/dev/shm/penstock-{os.getpid()}"
        seen = {name: tried(os.rename, name, there) for name in ("a", "d", "l", "none")}
        seen["link"] = tried(os.link, "a", there)
        return seen, census()

    compare(pair, across)
