"""The tables of docs/BENCHMARKS.md from the results of the comparisons."""


def span(ratio):
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def verdict(row):
    return {True: "yes", False: "**no**", None: "–"}[row["passed"]]


def all_met(rows):
    return all(row["passed"] is not False for row in rows)


def files_table(rows):
    def rate(row, who):
        value = row[who]
        return (
            f"{value / 1e9:.2f} GB/s" if row["unit"] == "bytes/s" else f"{value / 1e3:.0f} k IOPS"
        )

    head = "penstock bench | fio | fio, huge pages | ratio to the faster (95 % interval)"
    lines = [f"| direct I/O | {head} | bar | met |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        rates = [rate(row, who) for who in ("penstock", "fio", "fio_huge")]
        cells = [row["name"], *rates, span(row["ratio"])]
        lines.append(f"| {' | '.join(cells)} | {row['bar']} | {verdict(row)} |")
    return lines, all_met(rows)


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
    return lines, all_met(rows)


def mega(rate):
    return f"{rate / 1e9:.2f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"


def cache_cells(row):
    """What ours did, the others, and how they compare."""
    if row["kind"] == "share":
        others = f"{row['peer']}: {row['theirs']:.2f}; answered at once: {row['not_waiting']:.2f}"
        return f"{row['ours']:.2f}", others, "–"
    if row["kind"] == "seconds":
        first = f"the hit itself took {row['first_hit'] * 1e3:.1f} ms"
        return f"{row['ours']:.2f} s", f"{first}; all counted after {row['counted']:.1f} s", "–"
    if row["kind"] == "memory":
        ours, ceiling, rest, rest_ceiling = (
            f"{row[key] / 2**20:.0f} MiB" for key in ("ours", "theirs", "rest", "rest_ceiling")
        )
        return ours, f"ceiling: {ceiling}; besides windows: {rest}, ceiling: {rest_ceiling}", "–"

    def cell(label):
        used = row["cpu_per_gib"].get(label)
        return mega(row["rates"][label]) + (f" ({used:.2f} s)" if used is not None else "")

    others = [f"{label}: {cell(label)}" for label in row["rates"] if label != row["ours"]]
    ratios = [f"{span(value)} of {label}" for label, value in row["ratios"].items()]
    if "kept" in row:
        others.append(f"kept: {100 * row['kept']:.0f} %")
    return cell(row["ours"]), "; ".join(others), "; ".join(ratios)


def cache_table(rows):
    lines = ["| | through the cache | beside it | ratio (95 % interval) | bar | met |"]
    lines.append("|---" * 6 + "|")
    for row in rows:
        cells = [row["name"], *cache_cells(row), row["bar"], verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, all_met(rows)


def sync_rate(row, label):
    if label not in row["rates"]:
        return "–"
    rate = row["rates"][label]
    if row["bytes"] // row["files"] >= 1 << 20:
        text = mega(rate)
    else:
        text = f"{rate * row['files'] / row['bytes']:.0f}/s"
    details = []
    if label in row["cpu_per_gib"]:
        details.append(f"{row['cpu_per_gib'][label]:.1f} s")
    if label in row["rss_peak_bytes"]:
        details.append(f"{row['rss_peak_bytes'][label] / 2**20:.0f} MiB")
    return f"{text} ({', '.join(details)})" if details else text


def sync_table(rows):
    who = ["penstock sync", "rclone copy", "aws s3 cp", "PUT ceiling", "cp -r", "rsync"]
    lines = [f"| | {' | '.join(who)} | ratios (95 % interval) | bar | met |"]
    lines.append("|---" * (len(who) + 4) + "|")
    for row in rows:
        shown = [row["faster"]] + (["PUT ceiling"] if "PUT ceiling" in row["ratios"] else [])
        ratios = [f"{span(row['ratios'][label])} of {label}" for label in shown]
        if "durable_ratios" in row:
            ratios.append(f"{span(row['durable_ratios'][row['faster']])} of it once all is on disk")
        cells = [row["name"]] + [sync_rate(row, label) for label in who]
        lines.append(f"| {' | '.join([*cells, '; '.join(ratios), row['bar'], verdict(row)])} |")
    return lines, all_met(rows)


def policies_table(rows):
    who = ["penstock", "LRU", "FIFO", "random", "ARC", "S3-FIFO", "LIRS", "optimum"]
    lines = [f"| hit rate | {' | '.join(who)} | written: penstock | others, least | bar | met |"]
    lines.append("|---" * (len(who) + 5) + "|")
    for row in rows:
        cells = [row["title"]] + [f"{row['hits'][name]:.2f}" for name in who]
        cells += [f"{row['fills']:.2f}", f"{row['fills_others']:.2f}", row["bar"], verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, all(row["passed"] for row in rows)


def loader_rate(row, rate):
    if row["unit"] == "bytes/s":
        return mega(rate)
    return f"{rate / 1e3:.1f} k/s" if rate >= 1e4 else f"{rate:.0f}/s"


def loader_rate_lines(row):
    """One line for each peer."""
    for side in row["against"]:
        if side["bar"] is None:
            bar = "–"
        else:
            bar = f"> {side['bar']:g}" if side["strict"] else f"≥ {side['bar']:g}"
        ran = "ratio" in side
        rate = loader_rate(row, side["rate"]) if ran else "did not run"
        if "note" in side:
            rate += f": {side['note'].replace('|', '/')}"
        ratio = span(side["ratio"]) if ran else "–"
        ours = loader_rate(row, row["ours"])
        yield [row["name"], ours, f"{side['peer']}: {rate}", ratio, bar, verdict(side)]


def loader_lines(row):
    if row["kind"] == "rate":
        yield from loader_rate_lines(row)
    elif row["kind"] == "resume":
        fresh, resumed = row["fresh_seconds"] * 1e3, row["resume_seconds"] * 1e3
        beside = f"a fresh start: {fresh:.0f} ms"
        bar = "≤ 100 ms more"
        yield [row["name"], f"{resumed:.0f} ms", beside, "–", bar, verdict(row)]
    elif row["kind"] == "memory":
        after = [value / 1e6 for value in row["after_bytes"]]
        beside = "after each epoch: " + ", ".join(f"{value:.0f}" for value in after)
        bar = f"≤ {row['ceiling_bytes'] / 1e6:.0f} MB, flat"
        peak = f"peak {row['peak_bytes'] / 1e6:.0f} MB"
        yield [row["name"], peak, beside, "–", bar, verdict(row)]
    else:
        note = row["note"].replace("|", "/")
        yield [row["name"], f"failed: {note}", "–", "–", "–", verdict(row)]


def loader_table(rows):
    lines = ["| | penstock | beside it | ratio (95 % interval) | bar | met |"]
    lines.append("|---" * 6 + "|")
    met = True
    for row in rows:
        met = met and all_met(row.get("against", [row]))
        lines += [f"| {' | '.join(cells)} |" for cells in loader_lines(row)]
    return lines, met


def checkpoint_table(rows):
    def time(row, who):
        scale = 1e3 if row["unit"] == "s" else 1
        unit = "ms" if row["unit"] == "s" else row["unit"]
        return f"{row[who] * scale:.1f} {unit}"

    lines = ["| checkpoints | penstock | the other | times as fast (95 % interval) | bar | met |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        cells = [row["name"], time(row, "ours"), time(row, "theirs")]
        if "at_most" in row:
            cells += ["–", f"≤ {row['at_most']} {row['unit']}", verdict(row)]
        else:
            cells += [span(row["ratio"]), f"≥ {row['bar']:.2g}", verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, all_met(rows)


def volumes_cells(row):
    """What ours did, the others, and how they compare."""
    if row["unit"] == "seconds":
        return f"{row['ours']:.1f} s", "–", "–"
    if row["unit"] == "memory":
        return f"{row['ours'] / 2**20:.0f} MiB", "–", "–"

    def cell(label):
        return mega(row["rates"][label]) if row["unit"] == "bytes/s" else thousands(label)

    def thousands(label):
        rate = row["rates"][label]
        return f"{rate / 1e3:.1f} k/s" if rate >= 1e4 else f"{rate:.0f}/s"

    ours = cell("penstock")
    if "requests" in row:
        ours += f"; {row['requests']:.2f} requests each"
    if "stored_per_byte" in row:
        ours += f"; stored {row['stored_per_byte']:.2f} × written"
    others = [f"{label}: {cell(label)}" for label in row["rates"] if label != "penstock"]
    ratios = [f"{span(value)} of {label}" for label, value in row["ratios"].items()]
    return ours, "; ".join(others), "; ".join(ratios)


def volumes_table(rows):
    lines = ["| | mounted volume | beside it | ratio (95 % interval) | bar | met |"]
    lines.append("|---" * 6 + "|")
    for row in rows:
        cells = [row["name"], *volumes_cells(row), row["bar"], verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, all_met(rows)


TABLES = {
    "files": files_table,
    "codec": codec_table,
    "s3": s3_table,
    "cache-policies": policies_table,
    "cache": cache_table,
    "sync": sync_table,
    "loader": loader_table,
    "checkpoint": checkpoint_table,
    "volumes": volumes_table,
}
