"""Where a mount is meant to differ from ext4, and what docs/SEMANTICS.md says of it."""

from typing import NamedTuple


class Intended(NamedTuple):
    case: str  # Regular expressions, of the case's name
    path: str  # and of where in its observation.
    told: str  # Words of docs/SEMANTICS.md.


READS = "are set by reads that come to us"
NOBODY = "that names neither owner nor group changes nothing"
INTENDED = [
    Intended("owners_.*", ".* -1 -1", NOBODY),
    Intended("times_.*", "chown none / .*", NOBODY),
    Intended("refused.*", "chown none / .*", NOBODY),
    Intended("temporary", "w|rw", "**`O_TMPFILE`**, `FALLOC_FL_COLLAPSE_RANGE`"),
    Intended("allocations.*", "(8|32) .*", "`FALLOC_FL_COLLAPSE_RANGE` and `INSERT_RANGE`"),
    Intended("calls.*", "get flags", "file attributes of `chattr`"),
    Intended("times_file.*", "copy into / second", READS),
    Intended("mapped_times.*", "(synced|not yet) / x", READS),
    Intended(
        "times_file gathered", "truncate same / .*", "to the size that a file has leaves its times"
    ),
    Intended("mapped.*", "longer|gap", "behind the end of a file"),
    Intended("capabilities.*", "map", "a mapping takes them away"),
    Intended("large", ".*", "up to 64 KiB each"),
    Intended("names_.*", "system.posix_acl_.*", "POSIX access control lists with `--acl`"),
]
