"""What writing checkpoints costs the training loop: its own steps, with and without."""

import statistics
import time


class Drag:
    """Times of steps, told apart by whether a checkpoint was being written."""

    _KEPT = 4096

    def __init__(self, busy):
        self._busy = busy  # Whether one is being written now.
        self._last = None
        self._last_busy = False
        self._stalled = 0.0
        self._times = {True: [], False: []}

    def stalled(self, seconds):
        """Of the step under way, which save() is no part of."""
        self._stalled += seconds

    def step(self):
        now, busy = time.perf_counter(), self._busy()
        if self._last is not None and busy == self._last_busy:
            times = self._times[busy]
            times.append(now - self._last - self._stalled)
            del times[: -self._KEPT]
        self._last, self._last_busy, self._stalled = now, busy, 0.0

    def report(self):
        busy, idle = self._times[True], self._times[False]
        found = {"steps_while_writing": len(busy), "steps_otherwise": len(idle), "drag": None}
        if busy and idle:
            usual = statistics.median(idle)
            found["step_seconds"] = usual
            found["drag"] = statistics.median(busy) / usual - 1 if usual > 0 else None
        return found
