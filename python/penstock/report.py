"""What a loader spent its time on, and what to change."""

from __future__ import annotations


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _rate(bytes_per_second: float) -> str:
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6)):
        if bytes_per_second >= scale:
            return f"{bytes_per_second / scale:.3g} {unit}"
    return f"{bytes_per_second / 1e3:.3g} kB/s"


class Report(dict):
    """Numbers by name (seconds, bytes, counts); as text, what they mean."""

    def __str__(self) -> str:
        elapsed = max(self["elapsed"], 1e-9)
        lines = [
            f"{self['samples']} samples in {self['batches']} batches, {_time(elapsed)}: "
            f"{self['samples'] / elapsed:,.0f} samples/s, {_rate(self['bytes_read'] / elapsed)}",
            f"next(): p50 {_time(self['next_p50'])}, p99 {_time(self['next_p99'])}, "
            f"max {_time(self['next_max'])}; {self['ready_mean']:.1f} batches ready on average",
            f"first batch after {_time(self['first_batch'])}; page cache: {self['page_cache']}",
        ]
        threads = max(self["threads"], 1) * elapsed
        lines.append(
            f"{self['threads']} threads: decode {self['decode_busy'] / threads:.0%}, "
            f"read {self['read_busy'] / threads:.0%}, idle {self['worker_wait'] / threads:.0%}; "
            f"storage busy {self['storage_busy'] / elapsed:.0%} of the time"
        )
        if self.get("skipped"):
            lines.append(f"{self['skipped']} samples skipped; the first: {self['skipped_list'][0]}")
        return "\n".join(lines)
