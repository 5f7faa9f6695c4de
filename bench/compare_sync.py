"""`penstock sync` against `rclone copy` and `aws s3 cp --recursive`; locally against cp and rsync.

Each copies the same files into an empty place, so many at once; page caches of what is read are
dropped before. The time is that of the whole command. What was copied is compared with its source
once for each tool and direction.
"""

import dataclasses
import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import measure
import servers
import stats

PENSTOCK = measure.ROOT / "build/release/src/cli/penstock"
DRIVER = measure.ROOT / "build/release/bench/store_driver"
AWS = pathlib.Path(sys.executable).parent / "aws"  # Of the same environment.
BUCKET = "bench-sync"
AT_ONCE = 32
PART_BYTES = 16 << 20

KIB = 1 << 10
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    files: int
    bytes: int  # Of each.
    per_folder: int = 1000

    @property
    def total(self):
        return self.files * self.bytes


FULL = [
    Shape("10 000 files of 100 KiB", 10_000, 100 * KIB),
    Shape("4 GiB in files of 64 MiB", 64, 64 * MIB),
]
TINY = [Shape("30 files of 100 KiB", 30, 100 * KIB, 20), Shape("2 files of 20 MiB", 2, 20 * MIB)]


class Penstock:
    """As people type it: nothing but --jobs."""

    label = "penstock sync"

    def __init__(self, env, folder):
        self.env = {**os.environ, **env}

    def up(self, tree):
        return self.copy(tree, f"s3://{BUCKET}/data")

    def down(self, tree):
        return self.copy(f"s3://{BUCKET}/data", tree)

    def copy(self, source, target):
        return measure.timed([PENSTOCK, "sync", source, target, "--jobs", AT_ONCE], env=self.env)


class Rclone:
    """As many at once, no questions about the bucket, one listing instead of one per folder. Files
    of these sizes go whole, which is its default: in parts it takes more than twice as long here.
    Its checks (MD5 of what it sent and got) stay on, as ours do."""

    label = "rclone copy"
    flags = ["--transfers", AT_ONCE, "--checkers", AT_ONCE, "--fast-list", "--s3-no-check-bucket"]

    def __init__(self, env, folder):
        self.env = {key: value for key, value in os.environ.items() if key != "AWS_CA_BUNDLE"}
        self.env |= {
            "RCLONE_CONFIG_S_TYPE": "s3",
            "RCLONE_CONFIG_S_PROVIDER": "Ceph",
            "RCLONE_CONFIG_S_ENDPOINT": env["AWS_ENDPOINT_URL"],
            "RCLONE_CONFIG_S_ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"],
            "RCLONE_CONFIG_S_SECRET_ACCESS_KEY": env["AWS_SECRET_ACCESS_KEY"],
            "RCLONE_CONFIG": "/dev/null",
        }

    def up(self, tree):
        return self.copy(tree, f"s:{BUCKET}/data")

    def down(self, tree):
        return self.copy(f"s:{BUCKET}/data", tree)

    def copy(self, source, target):
        return measure.timed(["rclone", "copy", source, target, *self.flags, "-q"], env=self.env)


class AwsCli:
    """As many requests at once; files whole, which is a little faster here than in parts."""

    label = "aws s3 cp"

    def __init__(self, env, folder):
        config = folder / "aws-config"
        config.write_text(
            "[default]\ns3 =\n  addressing_style = path\n"
            f"  max_concurrent_requests = {AT_ONCE}\n  max_queue_size = 10000\n"
            "  multipart_threshold = 200MB\n"
        )
        self.env = {**os.environ, **env, "AWS_CONFIG_FILE": str(config)}
        self.env |= {"AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}

    def up(self, tree):
        return self.copy(tree, f"s3://{BUCKET}/data")

    def down(self, tree):
        return self.copy(f"s3://{BUCKET}/data", tree)

    def copy(self, source, target):
        command = [AWS, "s3", "cp", "--recursive", "--only-show-errors", source, target]
        return measure.timed(command, env=self.env)


class Ceiling:
    """What the server takes at best: PUTs of as large parts, as many at once, from memory."""

    label = "PUT ceiling"

    def __init__(self, env):
        self.env = {**os.environ, **env}

    def up(self, shape):
        count = max(1, shape.total // PART_BYTES)
        words = ["put", f"s3://{BUCKET}/ceiling", count, PART_BYTES, AT_ONCE]
        command = [str(word) for word in (DRIVER, *words)]
        done = subprocess.run(command, env=self.env, check=True, capture_output=True, text=True)
        # For as many bytes as the others move.
        answer = json.loads(done.stdout)
        return {"seconds": answer["seconds"] * shape.total / answer["bytes"]}


def make_tree(folder, shape):
    for index in range(shape.files):
        below = folder / f"folder-{index // shape.per_folder:04}"
        below.mkdir(parents=True, exist_ok=True)
        with open(below / f"file-{index:06}", "wb") as file:
            for begin in range(0, shape.bytes, MIB):
                file.write(os.urandom(min(MIB, shape.bytes - begin)))


def check_same(source, target):
    """Every file of the one in the other, byte by byte, and no other."""
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    if names != found:
        raise RuntimeError(f"{len(found)} files instead of {len(names)} in {target}")
    _, different, failed = filecmp.cmpfiles(source, target, names, shallow=False)
    if different or failed:
        raise RuntimeError(f"the copy differs: {[*different, *failed][:3]}")


def count_objects(server):
    pages = servers.s3_client(server.env).get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return sum(len(page.get("Contents", [])) for page in pages)


def flushed(folder, answer):
    """Adds when what was written was on the disk, for who does not see to that itself."""
    start = time.perf_counter()
    subprocess.run(["sync", "--file-system", str(folder)], check=True)
    return {**answer, "durable_seconds": answer["seconds"] + time.perf_counter() - start}


def upload_side(tool, server, shape, tree):
    def run(turn):
        servers.empty_bucket(server, BUCKET)
        measure.drop_page_cache(tree)
        answer = tool.up(tree)
        if turn == 0 and count_objects(server) != shape.files:
            raise RuntimeError(f"{tool.label} did not upload every file")
        return answer

    return run


def ceiling_side(ceiling, server, shape):
    def run(turn):
        servers.empty_bucket(server, BUCKET)
        return ceiling.up(shape)

    return run


def download_side(tool, tree, target):
    def run(turn):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        answer = flushed(target, tool.down(target))
        if turn == 0:
            check_same(tree, target)
        shutil.rmtree(target)
        return answer

    return run


def make_row(name, shape, answers, ours, peers, ceiling=None):
    made = {"name": name, "files": shape.files, "bytes": shape.total, "ours": ours}
    made |= measure.compare(answers, ours, shape.total)
    made["rss_peak_bytes"] = {
        label: max(one["rss_peak_bytes"] for one in many)
        for label, many in answers.items()
        if "rss_peak_bytes" in many[0]
    }
    if "durable_seconds" in answers[ours][0]:
        made["durable_ratios"] = {
            label: stats.ratio(
                [1 / one["durable_seconds"] for one in answers[ours]],
                [1 / one["durable_seconds"] for one in answers[label]],
            )
            for label in peers
        }
    faster = max(peers, key=lambda label: made["rates"][label])
    made |= {"faster": faster, "bar": "≥ the faster peer"}
    made["passed"] = made["ratios"][faster]["median"] >= 1
    if ceiling:
        made["bar"] += ", ≥ 0.85 of the PUT ceiling"
        made["passed"] = made["passed"] and made["ratios"][ceiling]["median"] >= 0.85
    return made


def s3_rows(server, folder, shape, rounds):
    tree = folder / "tree"
    make_tree(tree, shape)
    tools = [kind(server.env, folder) for kind in (Penstock, Rclone, AwsCli)]
    peers = [tool.label for tool in tools[1:]]
    sides = {tool.label: upload_side(tool, server, shape, tree) for tool in tools}
    is_large = shape.bytes >= PART_BYTES
    if is_large:
        sides[Ceiling.label] = ceiling_side(Ceiling(server.env), server, shape)
    answers = measure.rounds(sides, rounds)
    above = Ceiling.label if is_large else None
    rows = [make_row(f"{shape.name} to S3", shape, answers, Penstock.label, peers, above)]

    servers.empty_bucket(server, BUCKET)
    tools[0].up(tree)
    sides = {tool.label: download_side(tool, tree, folder / "back") for tool in tools}
    answers = measure.rounds(sides, rounds)
    rows.append(make_row(f"{shape.name} from S3", shape, answers, Penstock.label, peers))
    servers.empty_bucket(server, BUCKET)
    shutil.rmtree(tree)
    return rows


def local_copy(command, env=None):
    def run(tree, target):
        words = [word.format(tree=tree, target=target) for word in command]
        return measure.timed(words, env=env)

    return run


def local_row(folder, shape, rounds):
    """For information: neither checks what it wrote, nor waits for the disk."""
    tree, target = folder / "tree", folder / "copy"
    make_tree(tree, shape)
    copies = {
        Penstock.label: local_copy(
            [str(PENSTOCK), "sync", "{tree}", "{target}", "--jobs", str(AT_ONCE)]
        ),
        "cp -r": local_copy(["cp", "-r", "{tree}/.", "{target}"]),
        "rsync": local_copy(["rsync", "-a", "{tree}/", "{target}"]),
    }

    def side(label):
        def run(turn):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            measure.drop_page_cache(tree)
            answer = flushed(target, copies[label](tree, target))
            if turn == 0:
                check_same(tree, target)
            shutil.rmtree(target)
            return answer

        return run

    answers = measure.rounds({label: side(label) for label in copies}, rounds)
    shutil.rmtree(tree)
    peers = [label for label in copies if label != Penstock.label]
    made = make_row(f"{shape.name}, disk to disk", shape, answers, Penstock.label, peers)
    return {**made, "bar": "–", "passed": None}


def main(tiny=False):
    shapes = TINY if tiny else FULL
    rounds = 1 if tiny else 5
    rows = []
    measure.raise_file_limit()
    largest = max(shape.total for shape in shapes)
    # Twice what it holds at most: memory of what was deleted comes back late.
    size_gib = 1 if tiny else max(2, 2 * largest >> 30)
    with measure.scratch("sync", 3 * largest) as folder:
        with servers.s3_server(size_gib, reuse=tiny) as server, servers.bucket(server, BUCKET):
            for shape in shapes:
                rows += s3_rows(server, folder, shape, rounds)
        for shape in shapes:
            rows.append(local_row(folder, shape, rounds))
    return rows
