#!/usr/bin/env python3
"""Runs the comparisons and prints their tables: run.py [NAME...] [--update-docs]

Results go to bench/results/NAME.json; --update-docs also writes the tables into docs/BENCHMARKS.md
(that of cache-policies, and its plot, into docs/CACHING.md).
Exits with 1 when a bar is missed.
"""

import argparse
import datetime
import importlib
import json
import os
import pathlib
import platform
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ["files", "codec", "s3", "cache-policies"]


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


def span(ratio):
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def verdict(row):
    return "yes" if row["passed"] else "**no**"


def files_table(rows):
    def rate(row, who):
        value = row[who]
        return (
            f"{value / 1e9:.2f} GB/s" if row["unit"] == "bytes/s" else f"{value / 1e3:.0f} k IOPS"
        )

    lines = ["| direct I/O | penstock bench | fio | ratio (95 % interval) | bar | met |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        cells = [row["name"], rate(row, "penstock"), rate(row, "fio"), span(row["ratio"])]
        lines.append(f"| {' | '.join(cells)} | {row['bar']} | {verdict(row)} |")
    return lines, all(row["passed"] for row in rows)


def codec_table(answer):
    lines = ["| lz4, 4 MiB, one core | data | ours | by hand | ratio (95 % interval) | bar | met |"]
    lines.append("|---|---|---|---|---|---|---|")
    passed = True
    for case in answer["cases"]:
        for frames in case["lz4"]:
            ours = frames["decode"]["ours"]["gb_s"]
            for other in frames["decode"]["against"]:
                met = other["ratio"]["median"] >= 0.9
                passed = passed and met
                frame = f"frames of {frames['frame_bytes'] // 1024} KiB"
                cells = [frame, case["data"], f"{ours:.2f} GB/s"]
                cells += [f"{other['name']}: {other['gb_s']:.2f} GB/s", span(other["ratio"])]
                lines.append(f"| {' | '.join(cells)} | ≥ 0.9 | {verdict({'passed': met})} |")
    return lines, passed


def s3_table(rows):
    def rate(row, label):
        if label not in row["rates"]:
            return "–"
        value = row["rates"][label]
        if row["object_bytes"] >= 1 << 20:
            return f"{value * row['object_bytes'] / 1e6:.0f} MB/s"
        return f"{value:.0f}/s"

    who = ("penstock", "boto3", "rclone", "penstock for 2 s", "wrk")
    lines = [f"| | {' | '.join(who)} | ratios (95 % interval) | bar | met |"]
    lines.append("|---" * (len(who) + 4) + "|")
    for row in rows:
        ratios = "; ".join(f"{span(value)} of {label}" for label, value in row["ratios"].items())
        cells = [row["name"]] + [rate(row, label) for label in who]
        lines.append(f"| {' | '.join(cells)} | {ratios} | {row['bar']} | {verdict(row)} |")
    return lines, all(row["passed"] for row in rows)


def policies_table(rows):
    who = ["penstock", "LRU", "FIFO", "random", "ARC", "S3-FIFO", "LIRS", "optimum"]
    lines = [f"| hit rate | {' | '.join(who)} | written: penstock | others, least | bar | met |"]
    lines.append("|---" * (len(who) + 5) + "|")
    for row in rows:
        cells = [row["title"]] + [f"{row['hits'][name]:.2f}" for name in who]
        cells += [f"{row['fills']:.2f}", f"{row['fills_others']:.2f}", row["bar"], verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, all(row["passed"] for row in rows)


TABLES = {
    "files": files_table,
    "codec": codec_table,
    "s3": s3_table,
    "cache-policies": policies_table,
}
DOCS = {"cache-policies": "docs/CACHING.md"}  # The others: docs/BENCHMARKS.md.


def update_docs(name, text):
    path = ROOT / DOCS.get(name, "docs/BENCHMARKS.md")
    marks = (f"<!-- {name}: begin -->", f"<!-- {name}: end -->")
    pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.S)
    old = path.read_text()
    assert pattern.search(old), f"{path} has no place for {name}"
    path.write_text(pattern.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", old))


def run(name, docs):
    print(f"\n== {name}", flush=True)
    result = importlib.import_module(f"compare_{name.replace('-', '_')}").main()
    lines, passed = TABLES[name](result)
    today = datetime.date.today().isoformat()
    text = "\n".join([*lines, "", f"{today}, {machine()}; `./run bench {name}`."])
    print(text, flush=True)
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    saved = {"date": today, "machine": machine(), "result": result, "passed": passed}
    (folder / f"{name}.json").write_text(json.dumps(saved, indent=1))
    if docs:
        update_docs(name, text)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--update-docs", action="store_true", help="write into docs/")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark '{unknown[0]}': choose from {', '.join(NAMES)}")
    passed = [run(name, arguments.update_docs) for name in arguments.names or NAMES]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
