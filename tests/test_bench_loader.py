"""What `./run bench loader` is made of: its data, its verdicts and its table."""

import io
import json
import pathlib
import struct
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import compare_loader  # noqa: E402
import tables  # noqa: E402

from loader import data, runs  # noqa: E402

BARE_LOOPS = ROOT / "build/release/bench/bare_loops"
ONE_KIND = data.Sizes(40, 90, 1 << 20, 24, 4, 30, 50_000, 1000)


@pytest.fixture(name="made")
def fixture_made(tmp_path):
    return data.Data(tmp_path, ONE_KIND)


def answer(rate, **more):
    return {"samples": rate * 2, "seconds": 2.0, **more}


def test_the_median_of_the_pairs_decides():
    answers = {
        runs.OURS: [answer(100), answer(110), answer(300)],
        "slow": [answer(10), answer(10), answer(10)],
        "fast": [answer(100), answer(111), answer(299)],
    }
    row = runs.make_row("x", "work", answers, {}, {"slow": 11, "fast": 1}, strict=("fast",))
    slow, fast = row["against"]
    assert row["ours"] == 110 and row["unit"] == "samples/s"
    assert slow["ratio"]["median"] == 11 and slow["passed"] is True
    assert fast["ratio"]["median"] == 1 and fast["passed"] is False  # Not faster.


def test_without_a_bar_there_is_no_verdict():
    answers = {runs.OURS: [answer(1)], "other": [answer(9)]}
    row = runs.make_row("x", "work", answers, {}, {"other": None})
    assert row["against"][0]["passed"] is None
    lines, met = tables.loader_table([row])
    assert met and lines[-1].endswith("| – | – |")


def test_rates_of_bytes():
    answers = {runs.OURS: [answer(1000)], "drive": [answer(1000)]}
    row = runs.make_row("x", "work", answers, {}, {"drive": 0.9}, bytes_per_sample=3e6)
    assert row["ours"] == 3e9
    lines, met = tables.loader_table([row])
    assert met
    assert lines[-1] == "| work | 3.00 GB/s | drive: 3.00 GB/s | 1.00 (1.00–1.00) | ≥ 0.9 | yes |"


def test_a_peer_that_cannot_run_is_named_and_not_judged():
    def broken(turn):
        raise RuntimeError("libcuda.so.1 | not found")

    answers, missing = runs.take_turns({runs.OURS: lambda turn: answer(5), "peer": broken}, 3)
    assert len(answers[runs.OURS]) == 3 and "peer" not in answers
    row = runs.make_row("x", "work", answers, missing, {"peer": 5})
    lines, met = tables.loader_table([row])
    assert met
    told = "peer: did not run: libcuda.so.1 / not found"
    assert lines[-1] == f"| work | 5/s | {told} | – | ≥ 5 | – |"


def test_ours_must_run():
    def broken(turn):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        runs.take_turns({"peer": lambda turn: answer(5), runs.OURS: broken}, 2)
    lines, met = tables.loader_table([runs.failed_row("images", "images", "no")])
    assert not met and "failed: no" in lines[-1]


def test_everybody_takes_turns():
    asked = []
    sides = {label: lambda turn, label=label: asked.append((turn, label)) for label in "ab"}
    runs.take_turns(sides, 2)
    assert asked == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]


def test_other_samples_are_a_failure():
    mine = {"samples": 10, "bytes": 50, "crc": 7}
    assert runs.differs(mine, dict(mine)) is None
    assert runs.differs(mine, {}) is None  # Bare loops have none.
    assert runs.differs(mine, {**mine, "crc": 8}) == "crc: 8 instead of 7"
    images = {"samples": 10, "labels": 45, "mean_pixel": 0.21}
    assert runs.differs(images, {**images, "mean_pixel": 0.23}) is None
    assert runs.differs(images, {**images, "mean_pixel": 0.4}) is not None
    answers = {runs.OURS: [answer(9, digest=mine)], "peer": [answer(1, digest={"samples": 9})]}
    row = runs.make_row("x", "work", answers, {}, {"peer": 2})
    lines, met = tables.loader_table([row])
    assert not met
    assert "not the same samples: samples: 9 instead of 10" in lines[-1]


@pytest.mark.parametrize(
    ("after", "peak", "passed"),
    [([500, 510, 515, 515], 600, True), ([500, 510, 515, 540], 600, False), ([9, 9], 700, False)],
    ids=["flat", "grows", "above"],
)
def test_memory_is_below_its_ceiling_and_flat(after, peak, passed):
    told = {"after": [one * 10**6 for one in after], "peak": peak * 10**6}
    row = compare_loader.memory_row("memory", "JPEGs", told)
    assert row["passed"] is passed
    lines, met = tables.loader_table([row])
    assert met is passed
    assert f"peak {peak} MB" in lines[-1] and ", ".join(map(str, after)) in lines[-1]


def test_the_table_of_resuming():
    row = {"key": "resume", "kind": "resume", "name": "resume", "passed": True}
    row |= {"fresh_seconds": 0.1, "resume_seconds": 0.125}
    lines, met = tables.loader_table([row])
    assert met
    assert lines[-1] == "| resume | 125 ms | a fresh start: 100 ms | – | ≤ 100 ms more | yes |"


def test_the_best_of_the_gets_counts():
    results = [
        {"op": "put", "skipped": None, "throughput_bytes_per_second": 9},
        {"op": "get", "skipped": None, "throughput_bytes_per_second": 5},
        {"op": "get_range", "skipped": None, "throughput_bytes_per_second": 6},
        {"op": "get", "skipped": "no"},
    ]
    assert compare_loader.best_get(results) == 6


def test_a_failing_command_says_why():
    script = "import sys; sys.exit('Traceback\\n  File x\\nValueError: no such thing\\n')"
    with pytest.raises(RuntimeError, match="^ValueError: no such thing$"):
        runs.run_json([sys.executable, "-c", script])
    assert runs.run_json([sys.executable, "-c", "print('{}')"]) == {}


def test_tars_have_their_samples_and_the_index_of_dali(made):
    folder = made.tars("small")
    found = 0
    for path in sorted(folder.glob("*.tar")):
        lines = (folder.parent / f"{folder.name}-dali/{path.stem}.idx").read_text().splitlines()
        content = path.read_bytes()
        with tarfile.open(path) as tar:
            members = [(one.name, tar.extractfile(one).read()) for one in tar]
        assert lines[0] == f"v1.2 {len(members)}"
        for line, (name, expected) in zip(lines[1:], members, strict=True):
            extension, offset, size, same = line.split()
            assert (extension, same) == ("bin", name)
            assert content[int(offset) : int(offset) + int(size)] == expected
        found += len(members)
    assert found == ONE_KIND.small
    assert made.tars("small") == folder  # Once.


def test_photographs_are_of_the_right_kind():
    picture = data.photograph(np.random.default_rng(1))
    assert 80_000 < len(picture) < 140_000
    assert Image.open(io.BytesIO(picture)).size == (500, 400)


def test_checksums_of_tiny_records():
    crc32c = pytest.importorskip("crc32c")
    numbers = np.array([0, 8, 12345, 2**64 - 1], dtype=np.uint64)
    for number, ours in zip(numbers, data.masked_crc32c(numbers), strict=True):
        plain = crc32c.crc32c(struct.pack("<Q", int(number)))
        rotated = (plain >> 15 | plain << 17) & 0xFFFFFFFF
        assert int(ours) == (rotated + 0xA282EAD8) & 0xFFFFFFFF


def test_bare_loops_run(made):
    folder = made.photos()
    paths = sorted(folder.glob("*.tar"))
    tokens = made.tokens() / "corpus.bin"
    for words in (["images", *paths], ["tokens", tokens, "--seq", 100]):
        command = [BARE_LOOPS, *words, "--seconds", 0.01, "--batch", 8]
        done = json.loads(subprocess.check_output([str(word) for word in command], timeout=60))
        assert done["seconds"] >= 0.01
        assert done["samples"] % (ONE_KIND.photos if words[0] == "images" else 499) == 0
    done = subprocess.run([BARE_LOOPS, "images", tokens.with_suffix(".no")], check=False)
    assert done.returncode == 1


def test_both_sides_deliver_what_there_is(made):
    """As the benchmark runs it, but with this interpreter."""
    work = {"folder": str(made.tars("small")), "batch_size": 16, "field": "bin", "seconds": 0.01}
    work |= {"source": f"{work['folder']}/*.tar", "check": True}
    command = [sys.executable, runs.HERE / "drive.py", "ours:Samples", json.dumps(work)]
    env = runs.environment(made.folder)
    done = runs.run_json(command, env)
    expected = sum(
        int(line.split()[2])
        for path in made.folder.glob("tar-small-dali/*.idx")
        for line in path.read_text().splitlines()[1:]
    )
    assert done["digest"]["samples"] == ONE_KIND.small
    assert done["digest"]["bytes"] == expected
    assert done["samples"] % ONE_KIND.small == 0 and done["seconds"] > 0
    command[2] = "peers_webdataset:Alone"
    assert runs.run_json(command, env)["digest"] == done["digest"]


def test_rows_can_be_chosen():
    command = [sys.executable, ROOT / "bench/run.py"]
    for words, told in (
        (["loader", "--only", "nothing"], "loader has no row 'nothing'"),
        (["cache", "--quick"], "--only and --quick are for loader"),
        (["loader", "--quick", "--update-docs"], "--quick makes no figures"),
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert told in done.stderr
