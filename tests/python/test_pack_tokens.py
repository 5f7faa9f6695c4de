"""Text to tokens and back."""

import gzip
import json
import subprocess
import sys

import numpy as np
import penstock
import pytest
from conftest import BUILD
from penstock import pack

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def tokenizer(tmp_path):
    """A word is a token."""
    words = {word: i for i, word in enumerate("[UNK] <|endoftext|> a b c d e f g h".split())}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def run(*words):
    return pack.main(["tokens", *map(str, words)])


def test_documents_become_samples(tmp_path, tokenizer, capsys):
    texts = ["a b c", "d e", "a b c", "", "f g h a"]
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    (tmp_path / "one.jsonl").write_text(lines)
    with gzip.open(tmp_path / "two.jsonl.gz", "wt") as file:
        file.write(json.dumps({"text": "b b b b"}))
    out = tmp_path / "corpus"
    assert run(tmp_path / "*.jsonl*", out, "--tokenizer", tokenizer, "--append-eod", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["documents"] == 4 and report["left_out"] == {"duplicate": 1, "too short": 1}
    want = [2, 3, 4, 1, 5, 6, 1, 7, 8, 9, 2, 1, 3, 3, 3, 3, 1]
    assert np.fromfile(f"{out}.bin", np.uint16).tolist() == want
    batch = next(iter(penstock.Tokens(f"{out}.idx", seq_length=4, batch_size=4, shuffle="none")))
    assert batch["tokens"].ravel().tolist() == want[:16]


def test_filters_are_counted(tmp_path, tokenizer, capsys):
    texts = ["a b c d", "@@@@ #### $$$$ a", "a\na\na\na\nb", "h"]
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    options = ["--max-non-text", 0.3, "--max-repeated-lines", 0.5, "--min-chars", 2, "--json"]
    assert run(tmp_path / "x.jsonl", tmp_path / "out", "--tokenizer", tokenizer, *options) == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert left_out == {"too little text": 1, "repeated lines": 1, "too short": 1}


def test_what_fails_leaves_nothing(tmp_path, tokenizer):
    (tmp_path / "bad.jsonl").write_text('{"text": "a b"}\n{"other": 1}\n')
    command = [sys.executable, "-m", "penstock.pack", "tokens", str(tmp_path / "bad.jsonl")]
    command += [str(tmp_path / "out"), "--tokenizer", str(tokenizer)]
    ran = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(BUILD / "python")}
    )
    assert ran.returncode == 1 and "bad.jsonl:2" in ran.stderr
    assert not list(tmp_path.glob("out*"))
