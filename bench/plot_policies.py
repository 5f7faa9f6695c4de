#!/usr/bin/env python3
"""Draws what build/release/bench/cache_policies finds: plot_policies.py [OUT.svg]

One row per trace, one column per policy: a bar for the hit rate, on a track that ends at 1, with a
mark where the optimum lies. At the right, what was written into the cache for each byte read. The
SVG needs nothing else to be shown.
"""

import html
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bench/cache_policies"
IMAGE = ROOT / "docs/images/cache-policies.svg"

POLICIES = ["penstock", "LRU", "FIFO", "random", "ARC", "S3-FIFO", "LIRS", "optimum"]
GROUPS = [
    ("One job in file order", ["fits", "loop-1.1", "loop-2", "loop-4", "loop-20"]),
    ("One job, shuffled anew each epoch", ["shuffled", "samples"]),
    ("Two jobs at once", ["two-jobs", "same-data", "small-large"]),
    ("A hot set", ["hot-scan", "hot-arrives", "zipf"]),
    ("Second and third epoch of other data", ["switch-loop", "switch-shuffled"]),
]

LABEL, COLUMN, BAR = 292, 104, 54  # Widths: of the titles, of a policy, of the track in it.
WRITTEN = 76  # Width of a column of what was written.
ROW, TOP, MARGIN = 25, 96, 24
INK, SOFT, LINE, TRACK = "#1c2733", "#5d6b79", "#e3e8ed", "#eef1f4"
OURS, PEER, IDEAL = "#0b7285", "#9fb3c4", "#c9d3dc"


def run():
    return json.loads(subprocess.run([PROGRAM, "--json"], check=True, capture_output=True).stdout)


def text(x, y, what, size=12.5, colour=INK, anchor="start", weight=400):
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{html.escape(what)}</text>'
    )


def box(x, y, width, height, colour, radius=2.0):
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="{radius:g}"'
        f' fill="{colour}"/>'
    )


def cell(x, y, policy, hits, optimum):
    colour = {"penstock": OURS, "optimum": IDEAL}.get(policy, PEER)
    ours = policy == "penstock"
    parts = [box(x, y - 10, BAR, 12, TRACK)]
    if hits >= 0.01:
        parts.append(box(x, y - 10, BAR * hits, 12, colour))
    if policy != "optimum":
        parts.append(box(x + BAR * optimum - 0.75, y - 12, 1.5, 16, INK, 0))
    parts.append(
        text(
            x + BAR + 7, y, f"{hits:.2f}", colour=INK if ours else SOFT, weight=650 if ours else 400
        )
    )
    return parts


def least_written(row):
    return min(row[name]["fills"] for name in POLICIES if name not in ("penstock", "optimum"))


def written(x, y, row):
    cells = [("penstock", row["penstock"]["fills"]), ("others", least_written(row))]
    parts = []
    for i, (who, value) in enumerate(cells):
        ours = who == "penstock"
        at = x + (i + 1) * WRITTEN - 16
        shown = f"{value:.2f}" if value < 10 else f"{value:.1f}"
        colour, weight = (INK, 650) if ours else (SOFT, 400)
        parts.append(text(at, y, shown, colour=colour, anchor="end", weight=weight))
    return parts


def draw(rows):
    by_name = {row["name"]: row for row in rows}
    columns = {policy: LABEL + MARGIN + i * COLUMN for i, policy in enumerate(POLICIES)}
    right = LABEL + MARGIN + len(POLICIES) * COLUMN
    width = right + 2 * WRITTEN + MARGIN - 8
    parts = [
        text(MARGIN, 34, "What share of the bytes read comes from the cache", 18, weight=650),
        text(
            MARGIN,
            54,
            "C: size of the cache. Bars: hit rate, the track ends at 1. Mark: Belady’s optimum, "
            "which knows the future. Others: the one of them that writes least.",
            12,
            SOFT,
        ),
    ]
    y = TOP
    for policy, x in columns.items():
        ours = policy == "penstock"
        parts.append(text(x, y, policy, 12.5, OURS if ours else INK, weight=700 if ours else 600))
    middle, end = right + WRITTEN - 16, right + 2 * WRITTEN - 16
    parts.append(text(end, y - 17, "written per byte read", 12.5, anchor="end", weight=600))
    parts.append(text(middle, y, "penstock", 12.5, OURS, "end", 700))
    parts.append(text(end, y, "others", 12.5, anchor="end", weight=600))
    for title, names in GROUPS:
        y += 27
        parts.append(text(MARGIN, y, title, 12.5, weight=650))
        parts.append(box(MARGIN, y + 7, width - 2 * MARGIN, 1, LINE, 0))
        for name in names:
            y += ROW
            row = by_name[name]
            parts.append(text(MARGIN, y, row["title"], 12.5, SOFT))
            for policy, x in columns.items():
                parts += cell(x, y, policy, row[policy]["hits"], row["optimum"]["hits"])
            parts += written(right, y, row)
    height = y + 26
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial,'
        f' sans-serif">'
    )
    return "\n".join([head, box(0, 0, width, height, "#ffffff", 0), *parts, "</svg>", ""])


def save(rows, out=IMAGE):
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(draw(rows))


def main():
    save(run(), pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGE)


if __name__ == "__main__":
    main()
