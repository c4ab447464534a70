"""The NPU and the DMA engine side by side: what a sequence of copies and stripes takes."""

from __future__ import annotations

from nnhal_cascade.performance.price import Price


class Timeline:
    """Counts the cycles of a schedule.

    The DMA engine does one copy after the other, beside the NPU; a copy starts when it is issued, at the earliest. The
    NPU does one stripe after the other and waits for the constants of a stripe.
    """

    def __init__(self) -> None:
        self.now = 0
        """Cycles until the NPU has finished what it was given."""
        self._copied = 0
        self._fills: dict[int, int] = {}

    @property
    def end(self) -> int:
        """Cycles until all stripes and all copies are complete."""
        return max(self.now, self._copied)

    def begin_plan(self) -> None:
        """Start a plan: its parts fill the NPU's pipeline anew."""
        self._fills.clear()

    def copy(self, cycles: int) -> int:
        """Issue a copy, and return the cycle at which it is complete."""
        self._copied = max(self._copied, self.now) + cycles
        return self._copied

    def run(self, part: int, price: Price, ready: int = 0) -> None:
        """Run a stripe of a part whose constants are there at cycle ``ready``."""
        fill = self._fills.get(part, 0)
        self._fills[part] = max(fill, price.fill)
        self.now = max(self.now, ready) + price.cycles + max(0, price.fill - fill)
