"""Facts that follow from an explanation: who writes and reads a value, and how large it is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_pages.image_layouts import ADDED

WALKED = -1
"""The step of operations whose control flow the framework walks. In an edge the same number stands for the client."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The values of a plan, and the operations of its steps, by their numbers in the explanation."""

    writers: dict[str, tuple[int, ...]]
    """The operations that write a value. A name that is given twice has several."""
    readers: dict[str, tuple[int, ...]]
    bytes: dict[str, int]
    """The sizes of values that pass from step to step, or to or from the client. No other size is known."""
    members: dict[int, tuple[int, ...]]
    """The operations of each step."""

    def writer(self, value: str, reader: int) -> int | None:
        """Return the operation from which another one has a value: of several, the last one before it."""
        found = self.writers.get(value, ())
        return max((number for number in found if number < reader), default=found[0] if found else None)


def facts_of(explanation: Explanation) -> PlanFacts:
    writers: defaultdict[str, list[int]] = defaultdict(list)
    readers: defaultdict[str, list[int]] = defaultdict(list)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for number, story in enumerate(explanation.operations):
        members[story.step].append(number)
        for value in dict.fromkeys(story.outputs):
            writers[value].append(number)
        for value in dict.fromkeys(story.inputs):
            readers[value].append(number)
    sizes = {value.value: value.bytes for value in explanation.arena_values}
    return PlanFacts(
        {value: tuple(numbers) for value, numbers in writers.items()},
        {value: tuple(numbers) for value, numbers in readers.items()},
        sizes | {edge.value: edge.bytes for edge in explanation.edges},
        {step: tuple(numbers) for step, numbers in members.items()},
    )


def operation_name(story: OperationStory, number: int) -> str:
    """Return the user's name of an operation: those of its nodes, or its number if they have none.

    ``number`` is that in the explanation.
    """
    return ", ".join(filter(None, story.nodes)) or (ADDED if story.added else f"operation {number}")
