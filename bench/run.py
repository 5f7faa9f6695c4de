#!/usr/bin/env python3
"""Runs the comparisons and prints their tables: run.py [NAME...] [--update-docs]

Results go to bench/results/NAME.json; --update-docs also writes the tables into docs/BENCHMARKS.md
(that of cache-policies, and its plot, into docs/CACHING.md).
Exits with 1 when a bar is missed. --tiny shows in a minute that cache and sync run; figures made in
that way mean nothing, and are neither kept nor judged.
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
NAMES = ["files", "codec", "s3", "cache-policies", "cache", "sync"]
HAVE_TINY = ["cache", "sync"]
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


def run(name, docs, tiny):
    print(f"\n== {name}", flush=True)
    comparison = importlib.import_module(f"compare_{name.replace('-', '_')}")
    result = comparison.main(tiny=True) if tiny else comparison.main()
    lines, passed = tables.TABLES[name](result)
    today = datetime.date.today().isoformat()
    text = "\n".join([*lines, "", f"{today}, {machine()}; `./run bench {name}`."])
    print(text, flush=True)
    if tiny:
        return True
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
    parser.add_argument("--tiny", action="store_true", help="does it run? (cache, sync)")
    arguments = parser.parse_args()
    able = HAVE_TINY if arguments.tiny else NAMES
    unknown = [name for name in arguments.names if name not in able]
    if unknown:
        parser.error(f"no benchmark '{unknown[0]}': choose from {', '.join(able)}")
    if arguments.tiny and arguments.update_docs:
        parser.error("--tiny makes no figures for the documentation")
    for number in SIGNALS:
        signal.signal(number, stop)
    names = arguments.names or able
    passed = [run(name, arguments.update_docs, arguments.tiny) for name in names]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
