"""Reasons why an operation runs on another device than before: what the pins, the devices and their cost models say of
it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_pages.facts import PlanFacts, operation_name
from nnhal_pages.units import duration

_SAME_NS = 0.5
"""Modelled times that differ by less than this are the same."""


def move_reason(before: OperationStory, new: Explanation, number: int, facts: PlanFacts) -> str:
    """Say in a sentence why an operation of the new plan left its device. ``facts`` are those of the new plan."""
    after, old_device = new.operations[number], before.device
    if after.pin:
        return f"pinned by {after.pin}"
    if old_device in after.refusals:
        return f"{old_device} refuses it: {after.refusals[old_device]}"
    if old_device not in {device.name for device in new.devices}:
        return f"{old_device} is not among the devices of this plan"
    beside = [other for other in _neighbours(new, number, facts) if new.operations[other].device == after.device]
    freed = f"not pinned by {before.pin} any more; " if before.pin else ""
    return freed + _by_cost(before, after, _named(new, beside))


def _by_cost(before: OperationStory, after: OperationStory, beside: str) -> str:
    there, here = after.costs.get(before.device), after.costs.get(after.device)
    if there is None or here is None:
        return f"{before.device if there is None else after.device} gives no modelled time for it"
    if here < there - _SAME_NS:
        return f"faster there: {duration(here)} instead of {duration(there)}"
    if here <= there + _SAME_NS:
        return f"a tie of costs, {duration(here)} on both{f'; follows its neighbour {beside}' if beside else ''}"
    slower = f"{duration(here - there)} slower there"
    if beside:
        return f"follows its neighbour {beside}: {slower}, but the plan as a whole takes less without the hand-over"
    return f"{slower}, but the plan as a whole takes less so"


def _neighbours(plan: Explanation, number: int, facts: PlanFacts) -> Iterator[int]:
    """Yield the operations that write what one reads, and those that read what it writes."""
    story = plan.operations[number]
    for value in story.inputs:
        writer = facts.writer(value, number)
        if writer is not None:
            yield writer
    for value in story.outputs:
        yield from (reader for reader in facts.readers.get(value, ()) if facts.writer(value, reader) == number)


def _named(plan: Explanation, numbers: list[int]) -> str:
    """Name one of some operations: one that is pinned, if any is."""
    if not numbers:
        return ""
    chosen = next((number for number in numbers if plan.operations[number].pin), numbers[0])
    story = plan.operations[chosen]
    return operation_name(story, chosen) + (", which is pinned" if story.pin else "")
