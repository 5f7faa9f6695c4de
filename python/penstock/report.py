"""What a loader spent its time on, and what to change."""

from __future__ import annotations


class Report(dict):
    """Numbers by name (seconds, bytes, counts); "limit", "verdict" and "advice" say what they mean.
    print() it.
    """

    def __init__(self, numbers: dict, text: str):
        super().__init__(numbers)
        self._text = text

    def __str__(self) -> str:
        lines = [self._text.rstrip()]
        if self.get("map_busy"):
            share = self["map_busy"] / max(self["elapsed"], 1e-9)
            lines.append(
                f"   map= took {share:.0%} of the time: it runs in Python, one batch at a time"
            )
        if self.get("steps_timed"):
            total = self["step_busy"] + self["next_total"]
            step = self["step_busy"] / self["steps_timed"]
            idle = self["next_total"] / total if total else 0.0
            lines.append(
                f"   {self['steps_timed']} steps of {step * 1e3:.3g} ms;"
                f" training waited for data {idle:.1%} of the time"
            )
        return "\n".join(lines)
