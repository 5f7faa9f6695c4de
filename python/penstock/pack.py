"""penstock pack tokens: text to Megatron's .bin and .idx.

Images are packed by the command `penstock pack images`. Tokens are here because the tokenizers are
Hugging Face's, which is a Python package: pip install tokenizers (and zstandard for .zst).
"""

from __future__ import annotations

import argparse
import glob
import gzip
import hashlib
import io
import json
import os
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

_MAGIC = b"MMIDIDX\x00\x00"
_UINT16_VOCABULARY = 65_500
_CODES = {"uint16": 8, "int32": 4}


def _open_text(path: str) -> io.TextIOBase:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    if path.endswith(".zst"):
        try:
            import zstandard
        except ImportError:
            sys.exit("penstock pack tokens: reading .zst takes: pip install zstandard")
        return io.TextIOWrapper(
            zstandard.ZstdDecompressor().stream_reader(open(path, "rb")), "utf-8"
        )
    return open(path, encoding="utf-8")


def read_documents(paths: list[str], key: str) -> Iterator[str]:
    """Texts of .jsonl (by `key`) and of other files (each one document), in order."""
    for path in paths:
        lines = any(part in os.path.basename(path) for part in (".jsonl", ".ndjson"))
        with _open_text(path) as file:
            if not lines:
                yield file.read()
                continue
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line)[key]
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"penstock pack tokens: {path}:{number}: no text {key!r}: {error}")


class Filters:
    """What is left out, and how often."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.seen: set[bytes] = set()
        self.counts: Counter[str] = Counter()

    def why_not(self, text: str) -> str | None:
        a = self.arguments
        if len(text) < a.min_chars:
            return "too short"
        if a.max_chars and len(text) > a.max_chars:
            return "too long"
        if a.max_non_text < 1 and text:
            odd = sum(not (c.isalnum() or c.isspace() or c in ".,;:!?'\"()-") for c in text)
            if odd / len(text) > a.max_non_text:
                return "too little text"
        if a.max_repeated_lines < 1:
            lines = [line for line in text.splitlines() if line.strip()]
            if lines and 1 - len(set(lines)) / len(lines) > a.max_repeated_lines:
                return "repeated lines"
        if not a.keep_duplicates:
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if digest in self.seen:
                return "duplicate"
            self.seen.add(digest)
        return None

    def passes(self, text: str) -> bool:
        reason = self.why_not(text)
        self.counts[reason or "kept"] += 1
        return reason is None


class Writer:
    """PREFIX.bin and PREFIX.idx, which appear together when finished and not before."""

    def __init__(self, prefix: str, dtype: str):
        self.prefix, self.dtype = prefix, np.dtype(dtype)
        self.lengths: list[int] = []
        self.temporary = [f"{prefix}.{end}.tmp-{os.getpid()}" for end in ("bin", "idx")]
        self.bin = open(self.temporary[0], "wb")

    def add(self, tokens) -> None:
        self.bin.write(np.asarray(tokens, dtype=self.dtype).tobytes())
        self.lengths.append(len(tokens))

    def finish(self) -> None:
        lengths = np.array(self.lengths, dtype=np.int32)
        pointers = np.zeros(len(lengths), dtype=np.int64)
        np.cumsum(lengths[:-1].astype(np.int64) * self.dtype.itemsize, out=pointers[1:])
        self._close(self.bin)
        with open(self.temporary[1], "wb") as idx:
            code = _CODES[self.dtype.name]
            idx.write(_MAGIC + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1))
            for array in (lengths, pointers, np.arange(len(lengths) + 1, dtype=np.int64)):
                idx.write(array.tobytes())
            self._close(idx)
        for temporary, end in zip(self.temporary, ("bin", "idx")):
            os.replace(temporary, f"{self.prefix}.{end}")
        folder = os.open(os.path.dirname(os.path.abspath(self.prefix)), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    @staticmethod
    def _close(file) -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def abort(self) -> None:
        self.bin.close()
        for path in self.temporary:
            if os.path.exists(path):
                os.unlink(path)


def _tokenizer(path: str):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        sys.exit("penstock pack tokens: this takes: pip install tokenizers")
    return Tokenizer.from_file(path)


def _end_of_document(tokenizer, name: str | None) -> int:
    names = [name] if name else ["<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[SEP]"]
    for one in names:
        if (number := tokenizer.token_to_id(one)) is not None:
            return number
    sys.exit(f"penstock pack tokens: the tokenizer has none of {names}: say which by --eod TOKEN")


def pack_tokens(arguments) -> dict:
    paths = sorted(path for pattern in arguments.sources for path in glob.glob(pattern))
    if not paths:
        sys.exit(f"penstock pack tokens: nothing matches {arguments.sources}")
    tokenizer = _tokenizer(arguments.tokenizer)
    eod = _end_of_document(tokenizer, arguments.eod) if arguments.append_eod else None
    dtype = "uint16" if tokenizer.get_vocab_size() < _UINT16_VOCABULARY else "int32"
    filters, writer = Filters(arguments), Writer(arguments.output, dtype)
    began, tokens = time.monotonic(), 0
    documents = read_documents(paths, arguments.key)
    if arguments.shuffle:
        documents = list(documents)
        random.Random(arguments.seed).shuffle(documents)
    try:
        batch: list[str] = []
        for text in documents:
            if filters.passes(text):
                batch.append(text)
            if len(batch) == 512:
                tokens += _write(writer, tokenizer, batch, eod)
                batch = []
                _show(filters, tokens, began)
        tokens += _write(writer, tokenizer, batch, eod)
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return {"documents": filters.counts["kept"], "tokens": tokens, "dtype": dtype,
            "left_out": {k: v for k, v in filters.counts.items() if k != "kept"}}  # fmt: skip


def _write(writer: Writer, tokenizer, batch: list[str], eod: int | None) -> int:
    count = 0
    for encoded in tokenizer.encode_batch(batch, add_special_tokens=False):
        ids = encoded.ids if eod is None else [*encoded.ids, eod]
        if ids:
            writer.add(ids)
        count += len(ids)
    return count


def _show(filters: Filters, tokens: int, began: float) -> None:
    if sys.stderr.isatty():
        rate = tokens / max(1e-9, time.monotonic() - began)
        kept = filters.counts["kept"]
        print(f"\r{kept:,} documents, {tokens:,} tokens, {rate:,.0f}/s ", end="", file=sys.stderr)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: 0 to 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock pack", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    tokens = verbs.add_parser("tokens", help="text to PREFIX.bin and PREFIX.idx")
    tokens.add_argument("sources", nargs="+", help="files or patterns: .jsonl, .txt, .gz, .zst")
    tokens.add_argument("output", metavar="PREFIX", help="PREFIX.bin and PREFIX.idx are written")
    tokens.add_argument("--tokenizer", required=True, help="tokenizer.json of Hugging Face")
    tokens.add_argument("--key", default="text", help="of the text in .jsonl (default: text)")
    tokens.add_argument("--append-eod", action="store_true", help="end documents with a token")
    tokens.add_argument("--eod", help="which token that is")
    tokens.add_argument("--shuffle", action="store_true", help="documents; all are read first")
    tokens.add_argument("--seed", type=int, default=0)
    tokens.add_argument("--min-chars", type=int, default=1)
    tokens.add_argument("--max-chars", type=int, default=0)
    tokens.add_argument("--max-non-text", type=_share, default=1.0, help="share of characters")
    tokens.add_argument("--max-repeated-lines", type=_share, default=1.0, help="share of lines")
    tokens.add_argument("--keep-duplicates", action="store_true")
    tokens.add_argument("--json", action="store_true")
    return parser


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        report = pack_tokens(arguments)
    except KeyboardInterrupt:
        print("\npenstock pack tokens: stopped; nothing was written", file=sys.stderr)
        return 130
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if arguments.json:
        print(json.dumps(report, indent=2))
        return 0
    print(f"{report['documents']:,} documents, {report['tokens']:,} tokens as {report['dtype']}")
    for reason, count in sorted(report["left_out"].items()):
        print(f"  left out, {reason}: {count:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
