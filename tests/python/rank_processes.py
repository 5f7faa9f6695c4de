"""Several real processes of one run, each a rank."""

import os
import subprocess
import sys
import textwrap

from conftest import BUILD

# What every rank begins with: `rank`, `count`, `directory` and, where asked for, torch.distributed.
_BEGIN = """
import os, sys
rank, count, directory, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
import torch
import penstock
if meeting:
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
torch.manual_seed(rank)
"""
# At exit a thread of gloo may ask for the interpreter that is going, and abort: not what is tested.
_END = """
if meeting:
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
"""


def start_ranks(script, directory, count, *, distributed=None):
    """Starts `count` processes; distributed: a path that is not there, for them to meet at."""
    text = _BEGIN + textwrap.dedent(script) + _END
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                text,
                str(rank),
                str(count),
                str(directory),
                str(distributed or ""),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def finish(processes, *, expect=0, timeout=120):
    """What each printed; all must end as expected."""
    printed = []
    try:
        for rank, process in enumerate(processes):
            out, err = process.communicate(timeout=timeout)
            wanted = expect[rank] if isinstance(expect, list) else expect
            assert process.returncode == wanted, f"rank {rank}: {out}{err}"
            printed.append(out + err)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return printed
