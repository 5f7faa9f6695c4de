"""Extended attributes, beside ext4."""

import ctypes
import os

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    KINDS,
    LIBC,
    OTHER,
    USER,
    acting,
    checked,
    compare,
    make,
    tried,
    user,
)

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

NAMES = ("user.a", "trusted.a", "security.a", "system.a", "other.a", "user", "user.", "a", "")
NAMES += ("user." + "x" * 250, "user." + "x" * 251, "trusted." + "x" * 247, "user.ä", "user.a b")
NAMES += ("system.posix_acl_access", "system.posix_acl_default", "btrfs.x", "USER.a", ".a")


@pytest.mark.parametrize("who", [0, USER])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "loop"])
def test_names_of_attributes(pair, kind, who):
    def names():
        make(kind, "x")
        os.lchown("x", who, who)
        seen = {}
        for name in NAMES:
            options = {"follow_symlinks": False}
            with acting((who,) if who else None):
                seen[name[:30] + str(len(name))] = {
                    "none": tried(os.getxattr, "x", name, **options),
                    "replace": tried(os.setxattr, "x", name, b"1", os.XATTR_REPLACE, **options),
                    "create": tried(os.setxattr, "x", name, b"2", os.XATTR_CREATE, **options),
                    "again": tried(os.setxattr, "x", name, b"3", os.XATTR_CREATE, **options),
                    "set": tried(os.setxattr, "x", name, b"4", **options),
                    "both": tried(os.setxattr, "x", name, b"5", 3, **options),
                    "flags": tried(os.setxattr, "x", name, b"5", 4, **options),
                    "get": tried(os.getxattr, "x", name, **options),
                    "list": sorted(os.listxattr("x", **options)),
                    "remove": tried(os.removexattr, "x", name, **options),
                    "twice": tried(os.removexattr, "x", name, **options),
                }
        return seen

    names.__name__ = f"names_{kind}_{who}"
    compare(pair, names)


def test_sizes_of_attributes(pair):
    def sizes():
        make("file", "x")
        seen = {}
        for size in (0, 1, 255, 256, 1000, 3000, 65_537):
            got = tried(os.setxattr, "x", "user.a", b"v" * size)
            seen[size] = (got, len(tried(os.getxattr, "x", "user.a")))
        os.setxattr("x", "user.a", b"value")
        buffer = ctypes.create_string_buffer(100)
        for size in (0, 1, 4, 5, 6, 100):
            seen[f"get {size}"] = tried(
                lambda size=size: checked(LIBC.getxattr(b"x", b"user.a", buffer, size))
            )
            seen[f"list {size}"] = tried(
                lambda size=size: checked(LIBC.listxattr(b"x", buffer, size))
            )
        return seen

    compare(pair, sizes)


def test_large_attributes(pair):
    def large():
        make("file", "x")
        return {size: tried(os.setxattr, "x", "user.a", b"v" * size) for size in (5000, 65_536)}

    compare(pair, large)


def test_who_may_change_attributes(pair):
    def rights():
        seen = {}
        for kind in ("file", "folder"):
            for mode in (0o000, 0o444, 0o222, 0o666, 0o1777, 0o777):
                for uid in (USER, OTHER):
                    make(kind, "x")
                    os.chown("x", USER, USER)
                    os.setxattr("x", "user.there", b"1")
                    os.setxattr("x", "trusted.there", b"1")
                    os.setxattr("x", "security.there", b"1")
                    os.chmod("x", mode)
                    with user(uid):
                        seen[f"{kind} {mode:o} {uid}"] = {
                            "set": tried(os.setxattr, "x", "user.a", b"1"),
                            "get": tried(os.getxattr, "x", "user.there"),
                            "remove": tried(os.removexattr, "x", "user.there"),
                            "trusted": tried(os.getxattr, "x", "trusted.there"),
                            "set trusted": tried(os.setxattr, "x", "trusted.there", b"2"),
                            "security": tried(os.getxattr, "x", "security.there"),
                            "set security": tried(os.setxattr, "x", "security.there", b"2"),
                            "list": sorted(os.listxattr("x")),
                        }
                    os.rmdir("x") if kind == "folder" else os.unlink("x")
        return seen

    compare(pair, rights)


def test_attributes_go_with_their_inode(pair):
    def inode():
        make("file", "x")
        os.setxattr("x", "user.a", b"1")
        os.link("x", "y")
        seen = [os.getxattr("y", "user.a")]
        os.rename("x", "z")
        seen.append(os.getxattr("z", "user.a"))
        os.unlink("y")
        os.unlink("z")
        make("file", "x")
        return [*seen, os.listxattr("x")]

    compare(pair, inode)


def test_capabilities_that_make_no_sense(pair):
    def wrong():
        make("file", "x")
        return {
            length: tried(os.setxattr, "x", "security.capability", b"\1" * length)
            for length in (0, 1, 12, 20, 24)
        }

    compare(pair, wrong)
