"""GET and PUT on a real S3 server: ours against boto3's transfer manager, rclone and wrk.

All run on this machine, beside the server, one after the other in each round; the medians of the
rounds are compared. rclone copies between the server and files in memory (/dev/shm).
"""

import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import boto3.s3.transfer
import servers
import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRIVER = ROOT / "build/release/bench/store_driver"
BUCKET = "bench"
ROUNDS = 7
SECONDS = 2
CONCURRENCY = 32

# name, objects, bytes each
SHAPES = [("4 MiB objects", 192, 4 << 20), ("4 KiB objects", 1000, 4 << 10)]


class Penstock:
    def __init__(self, env):
        self.env = {**os.environ, **env}

    def run(self, verb, prefix, count, size, *seconds):
        command = [DRIVER, verb, f"s3://{BUCKET}/{prefix}", count, size, CONCURRENCY, *seconds]
        answer = subprocess.run(
            [str(word) for word in command],
            env=self.env,
            check=True,
            capture_output=True,
            text=True,
        )
        return answer.stdout

    def put(self, prefix, count, size):
        return json.loads(self.run("put", prefix, count, size))["seconds"]

    def get(self, prefix, count, size):
        return json.loads(self.run("get", prefix, count, size))["seconds"]


class PenstockSteady(Penstock):
    """As wrk does it: over and over the same objects for two seconds."""

    def get(self, prefix, count, size):
        answer = json.loads(self.run("get", prefix, count, size, SECONDS))
        return count * answer["seconds"] / answer["objects"]

    put = None


class Boto3:
    """One transfer manager; objects of these sizes are one request each."""

    def __init__(self, env):
        self.client = servers.s3_client(env, CONCURRENCY)
        transfer = boto3.s3.transfer.TransferConfig(
            max_concurrency=CONCURRENCY, multipart_threshold=64 << 20
        )
        self.manager = boto3.s3.transfer.create_transfer_manager(self.client, transfer)
        self.payload = {}

    def put(self, prefix, count, size):
        payload = self.payload.setdefault(size, os.urandom(size))
        start = time.perf_counter()
        futures = [
            self.manager.upload(io.BytesIO(payload), BUCKET, f"{prefix}/object-{i:06}")
            for i in range(count)
        ]
        for future in futures:
            future.result()
        return time.perf_counter() - start

    def get(self, prefix, count, size):
        sinks = [io.BytesIO() for _ in range(count)]
        start = time.perf_counter()
        futures = [
            self.manager.download(BUCKET, f"{prefix}/object-{i:06}", sinks[i]) for i in range(count)
        ]
        for future in futures:
            future.result()
        seconds = time.perf_counter() - start
        assert all(sink.tell() == size for sink in sinks)
        return seconds


class Rclone:
    def __init__(self, env):
        self.env = {key: value for key, value in os.environ.items() if key != "AWS_CA_BUNDLE"}
        self.env |= {
            "RCLONE_CONFIG_S_TYPE": "s3",
            "RCLONE_CONFIG_S_PROVIDER": "Ceph",
            "RCLONE_CONFIG_S_ENDPOINT": env["AWS_ENDPOINT_URL"],
            "RCLONE_CONFIG_S_ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"],
            "RCLONE_CONFIG_S_SECRET_ACCESS_KEY": env["AWS_SECRET_ACCESS_KEY"],
            "RCLONE_CONFIG": "/dev/null",
        }
        self.memory = pathlib.Path(tempfile.mkdtemp(prefix="bench-rclone-", dir="/dev/shm"))

    def copy(self, source, target):
        flags = ["--transfers", str(CONCURRENCY), "--checkers", str(CONCURRENCY)]
        flags += ["--s3-upload-cutoff", "64M", "--ignore-times", "--s3-no-check-bucket"]
        flags += ["--s3-disable-checksum", "--no-traverse", "-q"]
        start = time.perf_counter()
        subprocess.run(["rclone", "copy", source, target, *flags], env=self.env, check=True)
        return time.perf_counter() - start

    def put(self, prefix, count, size):
        folder = self.memory / f"up-{size}"
        if not folder.exists():
            folder.mkdir()
            for i in range(count):
                (folder / f"object-{i:06}").write_bytes(os.urandom(size))
        return self.copy(str(folder), f"s:{BUCKET}/{prefix}")

    def get(self, prefix, count, size):
        folder = self.memory / "down"
        shutil.rmtree(folder, ignore_errors=True)
        seconds = self.copy(f"s:{BUCKET}/{prefix}", str(folder))
        assert len(list(folder.iterdir())) >= count
        return seconds

    def close(self):
        shutil.rmtree(self.memory, ignore_errors=True)


class Wrk:
    """Presigned GETs with nothing else to do: the ceiling. Two threads, as there are cores."""

    def __init__(self, penstock):
        self.penstock = penstock
        self.script = None

    def get(self, prefix, count, size):
        urls = self.penstock.run("presign", prefix, count, size).split()
        paths = "\n".join(f'  "{url[url.index("/", 8):]}",' for url in urls)
        script = pathlib.Path(tempfile.mkdtemp(prefix="bench-wrk-")) / "paths.lua"
        script.write_text(
            f"local paths = {{\n{paths}\n}}\nlocal turn = 0\n"
            "request = function()\n  turn = turn % #paths + 1\n"
            "  return wrk.format('GET', paths[turn])\nend\n"
            "done = function(summary)\n"
            "  local bad = summary.errors.status + summary.errors.read + summary.errors.timeout\n"
            "  io.write(string.format('RATE %f BAD %d\\n',"
            " summary.requests / (summary.duration / 1e6), bad))\nend\n"
        )
        base = urls[0][: urls[0].index("/", 8)]
        command = ["wrk", "-t2", f"-c{CONCURRENCY}", f"-d{SECONDS}s", "-s", str(script), base]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        shutil.rmtree(script.parent)
        words = answer[answer.index("RATE") :].split()
        assert words[3] == "0", answer
        return count / float(words[1])


def measure_shape(env, clients, name, count, size):
    rows = []
    for verb in ("put", "get"):
        able = {name: client for name, client in clients.items() if getattr(client, verb, None)}
        seconds = {label: [] for label in able}
        prefix = f"size-{size}"
        for turn in range(ROUNDS + 1):
            order = list(able) if turn % 2 else list(reversed(able))
            for label in order:
                taken = getattr(able[label], verb)(prefix, count, size)
                if turn > 0:  # The first round warms memory, connections and the server.
                    seconds[label].append(taken)
        rows.append(make_row(f"{verb.upper()} {name}", count, size, seconds))
    return rows


def make_row(name, count, size, seconds):
    rates = {label: [count / s for s in taken] for label, taken in seconds.items()}
    peers = {label: stats.median(rates[label]) for label in ("boto3", "rclone")}
    faster = max(peers, key=peers.get)
    versus = {faster: stats.ratio(rates["penstock"], rates[faster])}
    passed = versus[faster]["median"] >= 1
    bar = "≥ the faster of boto3 and rclone"
    if "wrk" in rates:
        versus["wrk"] = stats.ratio(rates["penstock for 2 s"], rates["wrk"])
        passed = passed and versus["wrk"]["median"] >= 0.9
        bar += ", ≥ 0.9 of wrk"
    return {
        "name": f"{name}, {CONCURRENCY} at once",
        "unit": "objects/s",
        "rates": {label: stats.median(values) for label, values in rates.items()},
        "object_bytes": size,
        "ratios": versus,
        "bar": bar,
        "passed": passed,
    }


def main():
    with servers.s3_server(size_gib=8) as server:
        env = server.env
        penstock = Penstock(env)
        rclone = Rclone(env)
        clients = {"penstock": penstock, "boto3": Boto3(env), "rclone": rclone}
        clients |= {"penstock for 2 s": PenstockSteady(env), "wrk": Wrk(penstock)}
        clients["boto3"].client.create_bucket(Bucket=BUCKET)
        try:
            rows = []
            for shape in SHAPES:
                rows += measure_shape(env, clients, *shape)
            return rows
        finally:
            rclone.close()
