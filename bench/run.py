#!/usr/bin/env python3
"""Runs the comparisons and prints their tables: run.py [NAME...] [--update-docs]
       run.py loader|volumes [--only ROW]... [--quick]

Results go to bench/results/NAME.json; --update-docs also writes the tables into docs/BENCHMARKS.md
(that of cache-policies, and its plot, into docs/CACHING.md).
Exits with 1 when a bar is missed. --tiny shows in a minute or two that cache, sync and loader run;
figures made in that way mean nothing, and are neither kept nor judged. --only (some rows) and
--quick (fewer rounds) are for who works on the loader or on volumes: nothing is kept.
"""

import argparse
import datetime
import importlib
import json
import os
import pathlib
import platform
import re
import signal
import sys

import tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ["files", "codec", "s3", "cache-policies", "cache", "sync", "loader", "checkpoint"]
NAMES += ["volumes"]
HAVE_TINY = ["cache", "sync", "loader", "volumes"]
HAVE_PARTS = [["loader"], ["volumes"]]
DOCS = {"cache-policies": "docs/CACHING.md"}  # The others: docs/BENCHMARKS.md.


def machine():
    cpu = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = f"{pages / 2**30:.0f} GiB"
    cores = os.cpu_count()
    return f"{cores} cores ({cpu}), {memory}, Linux {platform.release()}"


def update_docs(name, text):
    path = ROOT / DOCS.get(name, "docs/BENCHMARKS.md")
    marks = (f"<!-- {name}: begin -->", f"<!-- {name}: end -->")
    pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.S)
    old = path.read_text()
    assert pattern.search(old), f"{path} has no place for {name}"
    path.write_text(pattern.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", old))


def run(name, docs, parts):
    """`parts`: what main() of the comparison is told, if anything; then nothing is kept."""
    print(f"\n== {name}", flush=True)
    comparison = importlib.import_module(f"compare_{name.replace('-', '_')}")
    result = comparison.main(**parts)
    lines, passed = tables.TABLES[name](result)
    today = datetime.date.today().isoformat()
    text = "\n".join([*lines, "", f"{today}, {machine()}; `./run bench {name}`."])
    print(text, flush=True)
    if parts:
        return passed or "tiny" in parts
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    saved = {"date": today, "machine": machine(), "result": result, "passed": passed}
    (folder / f"{name}.json").write_text(json.dumps(saved, indent=1))
    if docs:
        update_docs(name, text)
    return passed


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop(number, _frame):
    """On the way out, what was started is stopped and what was made is removed: once, in peace."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--update-docs", action="store_true", help="write into docs/")
    parser.add_argument(
        "--tiny", action="store_true", help=f"does it run? ({', '.join(HAVE_TINY)})"
    )
    parser.add_argument("--only", action="append", metavar="ROW", help="of these; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments = parser.parse_args()
    able = HAVE_TINY if arguments.tiny else NAMES
    unknown = [name for name in arguments.names if name not in able]
    if unknown:
        parser.error(f"no benchmark '{unknown[0]}': choose from {', '.join(able)}")
    parts = {key: getattr(arguments, key) for key in ("tiny", "only", "quick")}
    parts = {key: value for key, value in parts.items() if value}
    if parts and arguments.update_docs:
        parser.error(f"--{next(iter(parts))} makes no figures for the documentation")
    if (arguments.only or arguments.quick) and arguments.names not in HAVE_PARTS:
        parser.error("--only and --quick are for loader and volumes")
    if arguments.only:
        name = arguments.names[0]
        rows = importlib.import_module(f"compare_{name}").ROWS
        unknown = [row for row in arguments.only if row not in rows]
        if unknown:
            parser.error(
                f"{arguments.names[0]} has no row '{unknown[0]}': choose from {', '.join(rows)}"
            )
    for number in SIGNALS:
        signal.signal(number, stop)
    names = arguments.names or able
    passed = [run(name, arguments.update_docs, parts) for name in names]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
