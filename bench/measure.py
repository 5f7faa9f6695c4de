"""Commands with their time and memory, fair rounds, page caches, and a place on the disk."""

import contextlib
import os
import pathlib
import resource
import secrets
import shutil
import subprocess
import time

import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def scratch(name, bytes_needed):
    """A folder on the disk of this tree, gone afterwards."""
    # Named before it is made: a signal may come at any moment, also right after that.
    folder = ROOT / "build" / f"bench-{name}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        free = shutil.disk_usage(folder).free
        if free < bytes_needed:
            need = f"{bytes_needed >> 30} GiB"
            raise RuntimeError(f"{need} of disk needed in {ROOT / 'build'}, {free >> 30} GiB free")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drop_page_cache(folder):
    """The bytes of all files below it: whoever reads them next reads the device."""
    for base, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(base, name), os.O_RDONLY)
            try:
                os.fdatasync(file)  # Only clean pages are dropped.
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def drop_names():
    """Inodes and names, too; only root may. True when it was done."""
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("2")
    except PermissionError:
        return False
    return True


def timed(command, env=None, quiet=True):
    """Wall and processor seconds and peak memory of one command, which must succeed."""
    output = subprocess.PIPE if quiet else None
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], env=env, stdout=output, stderr=subprocess.STDOUT
    )
    try:
        text = process.stdout.read().decode(errors="replace") if quiet else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        if quiet:
            process.stdout.close()
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}: {text[-2000:]}")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "rss_peak_bytes": usage.ru_maxrss << 10,
    }


def rounds(sides, count):
    """Every side `count` times, in turn; a first round, which is not counted, warms everything up.

    Who goes first alternates, so that drift helps nobody. A side is called with the round's number,
    and answers with a dictionary; the answer has a list of those for each.
    """
    answers = {label: [] for label in sides}
    for turn in range(count + 1):
        order = list(sides) if turn % 2 else list(reversed(sides))
        for label in order:
            answer = sides[label](turn)
            if turn > 0:
                answers[label].append(answer)
    return answers


def compare(answers, ours, bytes_moved):
    """Medians of each side's rate, processor time and memory; ratios of ours to each other's."""
    rates = {
        label: [bytes_moved / one["seconds"] for one in many] for label, many in answers.items()
    }
    return {
        "rates": {label: stats.median(values) for label, values in rates.items()},
        "cpu_per_gib": {
            label: stats.median([one["cpu_seconds"] for one in many]) / bytes_moved * 2**30
            for label, many in answers.items()
            if "cpu_seconds" in many[0]
        },
        "ratios": {
            label: stats.ratio(rates[ours], values)
            for label, values in rates.items()
            if label != ours
        },
    }


def raise_file_limit():
    """Tools with many transfers at once open many files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
