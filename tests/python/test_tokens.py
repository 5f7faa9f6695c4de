"""Tokens against numpy, which reads the same files."""

import struct

import numpy as np
import penstock
import pytest

CODES = {"uint8": 1, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_megatron(prefix, documents, dtype="uint16"):
    """As Megatron's IndexedDatasetBuilder does."""
    item = np.dtype(dtype).itemsize
    lengths = np.array([len(one) for one in documents], dtype=np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1].astype(np.int64) * item)]).astype(
        np.int64
    )
    with open(f"{prefix}.bin", "wb") as bin_file:
        for one in documents:
            bin_file.write(np.asarray(one, dtype=dtype).tobytes())
    with open(f"{prefix}.idx", "wb") as idx:
        idx.write(
            b"MMIDIDX\x00\x00"
            + struct.pack("<QBQQ", 1, CODES[dtype], len(documents), len(documents) + 1)
        )
        idx.write(
            lengths.tobytes()
            + pointers.tobytes()
            + np.arange(len(documents) + 1, dtype=np.int64).tobytes()
        )
    return f"{prefix}.idx"


@pytest.mark.parametrize("dtype", list(CODES))
def test_samples_are_those_of_numpy(tmp_path, dtype):
    rng = np.random.default_rng(1)
    top = min(np.iinfo(dtype).max, 50_000)
    documents = [rng.integers(0, top, rng.integers(1, 90)) for _ in range(60)]
    path = write_megatron(tmp_path / "corpus", documents, dtype)
    all_tokens = np.concatenate(documents).astype(np.int64)
    count = (len(all_tokens) - 1) // 16
    loader = penstock.Tokens(path, seq_length=16, batch_size=4, shuffle="none", last="pad")
    assert loader.samples == count
    seen = 0
    for batch in loader:
        assert batch["tokens"].shape == (4, 16) and batch["tokens"].dtype == np.int64
        for tokens, labels, ok in zip(batch["tokens"], batch["labels"], batch["__mask__"]):
            if not ok:
                continue
            np.testing.assert_array_equal(tokens, all_tokens[seen * 16 : seen * 16 + 16])
            np.testing.assert_array_equal(labels, all_tokens[seen * 16 + 1 : seen * 16 + 17])
            seen += 1
    assert seen == count


def test_shuffled_epochs_have_every_sample_once(tmp_path):
    path = write_megatron(tmp_path / "corpus", [np.arange(1000)])
    loader = penstock.Tokens(path, seq_length=10, batch_size=3, seed=5, last="pad")
    for _ in range(2):
        firsts = [int(t[0]) for b in loader for t, ok in zip(b["tokens"], b["__mask__"]) if ok]
        assert sorted(firsts) == list(range(0, 990, 10)) and firsts != sorted(firsts)


def test_what_is_wrong_is_said(tmp_path):
    path = write_megatron(tmp_path / "corpus", [np.arange(10)])
    with pytest.raises(ValueError, match="10 tokens"):
        penstock.Tokens(path, seq_length=10)
    (tmp_path / "corpus.bin").write_bytes(b"short")
    with pytest.raises(penstock.CorruptError):
        penstock.Tokens(path, seq_length=4)
    with pytest.raises(FileNotFoundError):
        penstock.Tokens(str(tmp_path / "other.idx"), seq_length=4)


def test_many_epochs_from_memory(tmp_path):
    """After some batches it is known that all of it is in memory: workers read it themselves."""
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 50_000, 400_000)
    path = write_megatron(tmp_path / "corpus", [tokens])
    loader = penstock.Tokens(path, seq_length=255, batch_size=200, shuffle="global", last="pad")
    for _ in range(20):
        seen = []
        for batch in loader:
            for row, label, ok in zip(batch["tokens"], batch["labels"], batch["__mask__"]):
                if ok:
                    seen.append((row, label))
        assert len(seen) == (len(tokens) - 1) // 255
        firsts = {row.tobytes(): label for row, label in seen}
        for i in range(len(seen)):
            row, label = tokens[i * 255 : i * 255 + 255], tokens[i * 255 + 1 : i * 255 + 256]
            assert (firsts[row.tobytes()] == label).all()


def test_a_corpus_that_is_cut_meanwhile_is_an_error(tmp_path):
    tokens = np.arange(400_000) % 50_000
    path = write_megatron(tmp_path / "corpus", [tokens])
    loader = penstock.Tokens(path, seq_length=255, batch_size=200, last="pad")
    for _ in range(20):
        for _ in loader:
            pass
    with open(tmp_path / "corpus.bin", "r+b") as corpus:
        corpus.truncate(1000)
    with pytest.raises(penstock.PenstockError):
        for _ in range(3):
            for _ in loader:
                pass


@pytest.mark.parametrize("cut", [799_000, 700_002, 401_412, 8_194])
def test_what_a_corpus_lost_never_comes_as_tokens(tmp_path, cut):
    """The rest of the last page of a mapped file that was cut reads as zeros, without a signal."""
    tokens = np.arange(400_000) % 50_000 + 1
    path = write_megatron(tmp_path / "corpus", [tokens])
    loader = penstock.Tokens(path, seq_length=255, batch_size=200, last="pad", on_error="skip")
    for _ in range(20):
        for _ in loader:
            pass
    with open(tmp_path / "corpus.bin", "r+b") as corpus:
        corpus.truncate(cut)
    for _ in range(3):
        for batch in loader:
            mask = batch["__mask__"]
            assert (batch["tokens"][mask] > 0).all() and (batch["labels"][mask] > 0).all()
    assert loader.report()["skipped"] > 0
