"""The layout of a plan's images in words, the same in tables and on pages."""

from __future__ import annotations

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_pages.units import duration

ADDED = "added by the framework"
"""In place of the nodes of the model that an operation stands for."""


def layout_figure(explanation: Explanation) -> str:
    """Return the layout in two words; empty if no device wants another one than the model's."""
    layout = explanation.image_layout
    return "" if layout is None else "channels last" if layout.channels_last else "channels first"


def layout_words(explanation: Explanation) -> str:
    """Say why the images have their layout, what that costs, and what a run with the other layout would take.

    It is empty if no device wants another layout than the model's.
    """
    layout = explanation.image_layout
    if layout is None:
        return ""
    wanting = f"{' and '.join(layout.wanting)} {'wants' if len(layout.wanting) == 1 else 'want'}"
    other = "first" if layout.channels_last else "last"
    difference = f"with channels {other} a run would take {duration(layout.other_ns)} modelled"
    if layout.other_reason:
        difference = f"no plan with channels {other}: {layout.other_reason}"
    elif not layout.other_ns:
        difference = f"with channels {other} the devices give no modelled time"
    if layout.channels_last:
        return f"the model has channels first, {wanting} them last; {_added(explanation.transpositions)}; {difference}"
    return f"as in the model, though {wanting} channels last; {difference}"


def _added(operations: tuple[OperationStory, ...]) -> str:
    if not operations:
        return "nothing had to be added for that"
    what = "1 operation was" if len(operations) == 1 else f"{len(operations)} operations were"
    return f"{what} added for that, {duration(sum(story.modelled_ns for story in operations))} modelled"
