"""The scales of integers in the extension: of values, results and constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from nnhal_mlip.flow.files.errors import FlowFilesError
from nnhal_mlip.flow.files.extension import ScaledPart
from nnhal_mlip.flow.graph.flow_graph import FlowValue


def scales_of(place: str, value: FlowValue, rank: int | None = None) -> dict[str, Any]:
    """Return ``scales`` and ``axis`` of a value that is written with a rank, which leading ones make out of its own.

    Raises FlowFilesError, which begins with ``place``, if a scale is not a positive number.
    """
    if wrong := [scale for scale in value.scales if not (isfinite(scale) and scale > 0)]:
        raise FlowFilesError(f"{place}: got scale {wrong[0]}, expected a number above 0")
    axis = value.axis % max(value.rank, 1) + (value.rank if rank is None else rank) - value.rank
    return {"scales": value.scales or None, "axis": axis if len(value.scales) > 1 else None}


def check_scales(place: str, part: ScaledPart | None, shape: Sequence[int]) -> None:
    """Raise FlowFilesError, which begins with ``place``, if scales do not fit a shape."""
    if part is None or part.scales is None:
        return
    axis, count = part.axis, len(part.scales)
    fits = count == 1 if axis is None else 0 <= axis < len(shape) and count == shape[axis]
    if not fits:
        got = f"{count} scales along axis {axis} of shape {list(shape)}"
        raise FlowFilesError(f"{place}: got {got}, expected one for each index, or one without an axis")
