"""Words for what goes over networks, the same in tables and on pages."""

from __future__ import annotations

from typing import Protocol

from nnhal_client.explanation import Counterfactual, Explanation
from nnhal_pages.units import duration, size


class SentBytes(Protocol):
    """An edge of a plan, an entry of a ledger, or a sum of them."""

    @property
    def wire_up_bytes(self) -> int:
        """Bytes that go to a device on another host."""
        ...

    @property
    def wire_down_bytes(self) -> int: ...


def link_words(round_trip_ns: float, ns_per_byte: float) -> str:
    rate = f", {1e3 / ns_per_byte:.3g} MB/s" if ns_per_byte > 0 else ""
    return f"a round trip takes {duration(round_trip_ns)}{rate}"


def sent_words(sent: SentBytes) -> str:
    """Say what a value's use sends in which directions; empty if it sends nothing."""
    ways = (("up", sent.wire_up_bytes), ("down", sent.wire_down_bytes))
    counts = " and ".join(f"{size(count)} {way}" for way, count in ways if count)
    return f"{counts} the wire" if counts else ""


def wire_total(explanation: Explanation) -> str:
    """Say what a run sends by plan, and how long that takes; empty if no step is on another host."""
    if not explanation.wire_ns:
        return ""
    up, down = explanation.wire_up_bytes, explanation.wire_down_bytes
    return f"{size(up)} up, {size(down)} down a run, {duration(explanation.wire_ns)} modelled"


def whole_model_words(other: Counterfactual) -> str:
    """Say how long the whole model would take on a device that takes it."""
    return duration(other.modelled_ns) + (f", of which {duration(other.wire_ns)} on the wire" if other.wire_ns else "")
