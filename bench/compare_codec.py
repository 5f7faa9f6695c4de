"""Decoding and verifying frames against plain LZ4_decompress_safe and XXH3 called by hand."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    driver = ROOT / "build/release/bench/codec_bench"
    answer = subprocess.run([driver], check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)
