"""Classes of error, each with a colour of its own on the page."""

from __future__ import annotations

from nnhal_tools.diff.report import LayerDiff

_BOUNDS = (60.0, 40.0, 20.0)
"""Decibels from which on the first levels after 'equal' begin."""
LEVELS = {
    "level-0": "equal bits",
    "level-1": "60 dB or more",
    "level-2": "40 dB or more",
    "level-3": "20 dB or more",
    "level-4": "less than 20 dB",
    "level-none": "not compared",
}
"""What each class means, from the least error to the most."""


def level_of(layer: LayerDiff) -> str:
    """Return the class of a layer's error."""
    if layer.error is None:
        return "level-none"
    if layer.error.is_equal:
        return "level-0"
    sqnr = layer.error.sqnr
    if layer.error.unmatched or sqnr is None:
        return "level-4"
    return f"level-{next((place for place, bound in enumerate(_BOUNDS, 1) if sqnr >= bound), 4)}"
