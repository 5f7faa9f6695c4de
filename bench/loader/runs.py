"""Candidates in processes of their own, in turn: did they deliver the same, and how fast?"""

import json
import math
import os
import pathlib
import subprocess

import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "bench/loader"
PYTHON = ROOT / ".venv-bench/bin/python"
PENSTOCK = ROOT / "build/release/src/cli/penstock"
BARE_LOOPS = ROOT / "build/release/bench/bare_loops"
TIMEOUT = 400
PIXEL_TOLERANCE = 0.05  # Of the mean normalised pixel: crops are random, their mean hardly.

OURS = "penstock"


def environment(folder, more=None):
    """What libraries keep for later (indexes, caches) goes to `folder`, not to a home."""
    made = {**os.environ, **(more or {}), "PYTHONPATH": str(ROOT / "build/release/python")}
    return {**made, "XDG_CACHE_HOME": f"{folder}/xdg", "HOME": str(folder), "NO_COLOR": "1"}


def last_words(text):
    """The line of a traceback that says what went wrong."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def run_json(command, env=None):
    """What the command prints; a RuntimeError with its last words when it fails."""
    words = [str(word) for word in command]
    # A session of its own, so that its worker processes can be stopped with it.
    process = subprocess.Popen(
        words,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {TIMEOUT} s") from None
    finally:
        stop_session(process)
    if process.returncode != 0:
        raise RuntimeError(last_words(err))
    return json.loads(out)


def stop_session(process):
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.communicate()


class Candidate:
    """One side of a row: a class of one of the modules here, in its own process each time."""

    def __init__(self, name, work, folder, env=None):
        self.name = name
        self.work = work
        self.env = environment(folder, env)

    def __call__(self, turn):
        work = {**self.work, "check": turn == 0}
        command = [PYTHON, HERE / "drive.py", self.name, json.dumps(work)]
        answer = run_json(command, self.env)
        if answer["samples"] == 0:
            raise RuntimeError("it delivered nothing")
        return answer


def bare_loop(*words):
    return lambda turn: run_json([BARE_LOOPS, *words])


def penstock_bench(path, case, seconds, bytes_per_sample=1):
    """`penstock bench` as a candidate whose samples are so many bytes."""

    def run(turn):
        command = [PENSTOCK, "bench", path, "--case", case, "--seconds", seconds, "--json"]
        (result,) = run_json(command)["results"]
        return {
            "samples": result["throughput_bytes_per_second"] / bytes_per_sample,
            "seconds": 1.0,
        }

    return run


def take_turns(sides, rounds):
    """Every side once in each round; who goes first alternates, so that drift helps nobody.

    (answers, missing): lists by label, and why those that failed did. Ours must not fail.
    """
    answers = {label: [] for label in sides}
    missing = {}
    for turn in range(rounds):
        for label in list(sides) if turn % 2 == 0 else list(reversed(sides)):
            if label in missing:
                continue
            try:
                answers[label].append(sides[label](turn))
            except RuntimeError as error:
                if label == OURS:
                    raise
                missing[label] = str(error)
    return {label: many for label, many in answers.items() if label not in missing}, missing


def differs(ours, theirs):
    """None when the digests are of the same samples; otherwise what differs."""
    for key, value in theirs.items():
        mine = ours.get(key)
        if key == "mean_pixel":
            same = mine is not None and math.isclose(mine, value, abs_tol=PIXEL_TOLERANCE)
        else:
            same = mine == value
        if not same:
            return f"{key}: {value} instead of {mine}"
    return None


def judge(median, bar, strict):
    """Whether a ratio is enough; None without a bar."""
    if bar is None:
        return None
    return median > bar if strict else median >= bar


def make_row(key, name, answers, missing, bars, bytes_per_sample=None, strict=()):
    """`bars` has the least ratio for each peer, or None where there is no bar.

    Rates are of samples, or of bytes where it is known how many a sample has.
    """
    unit = "samples/s" if bytes_per_sample is None else "bytes/s"
    rates = {
        label: [one["samples"] / one["seconds"] * (bytes_per_sample or 1) for one in many]
        for label, many in answers.items()
    }
    row = {"key": key, "kind": "rate", "name": name, "unit": unit}
    row |= {"ours": stats.median(rates[OURS]), "ours_all": rates[OURS], "against": []}
    mine = answers[OURS][0].get("digest", {})
    for label, bar in bars.items():
        side = {"peer": label, "bar": bar, "strict": label in strict}
        if label in missing:
            row["against"].append({**side, "note": missing[label], "passed": None})
            continue
        ratio = stats.ratio(rates[OURS], rates[label])
        side |= {"rate": stats.median(rates[label]), "ratio": ratio}
        side["passed"] = judge(ratio["median"], bar, side["strict"])
        if difference := differs(mine, answers[label][0].get("digest", {})):
            side |= {"note": f"not the same samples: {difference}", "passed": False}
        row["against"].append(side)
    return row


def failed_row(key, name, error):
    return {"key": key, "kind": "failed", "name": name, "note": str(error), "passed": False}
