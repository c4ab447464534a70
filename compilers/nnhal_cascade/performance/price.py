"""The price of a stripe: the types that planner and device share."""

from __future__ import annotations

from typing import NamedTuple


class Price(NamedTuple):
    """What running one stripe of a part costs. All of it adds up over stripes."""

    cycles: int
    """Cycles in the steady state: the largest of arithmetic, output and the accesses to each region."""
    fill: int
    """Cycles to fill the pipeline, paid once for a part in a plan: the NPU overlaps a stripe with the one before."""
    macs: int
    """Multiply-adds."""
    read: dict[str, int]
    """Bytes read from each region, by name."""
    written: dict[str, int]
    """Bytes written to each region, by name."""


class StripePlaces(NamedTuple):
    """The regions, by name, that a stripe reads and writes."""

    inputs: tuple[str, ...]
    """For each of the part's inputs."""
    output: str
    constants: str
    """Empty if the part has no constants."""
