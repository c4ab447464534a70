"""The unit of a schedule: one stripe of one part."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_cascade.geometry.box import Axis, Box


class Death(NamedTuple):
    """After a stripe, elements of a tensor are no longer needed."""

    tensor: int
    axis: Axis
    from_: int
    """The first element along the axis that died."""
    to: int
    """The element after the last that died."""


class StripeRun(NamedTuple):
    """One stripe of a part."""

    part: int
    """An index into the graph's parts."""
    output: Box
    inputs: tuple[Box, ...]
    """For each of the part's inputs, without its padding."""
    deaths: tuple[Death, ...]
    """What is dead when the stripe has run. A tensor that is not mentioned lives to the end of its last plan."""
