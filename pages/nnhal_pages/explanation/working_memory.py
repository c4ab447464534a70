"""Use of one working memory by the steps of a plan: the arenas of NPUs, and the values that live across them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnhal.reports import CLIENT_STEP
from nnhal_client.explanation import Explanation
from nnhal_pages.facts import WALKED
from nnhal_pages.report import Column, Name, ReportTable
from nnhal_pages.units import size


@dataclass(frozen=True, slots=True)
class SharedStep:
    """A step, and what is taken while it runs."""

    step: int
    device: str
    own: int
    """Bytes of the working memory that its device says it takes; of another device, what it reads and writes."""
    across: tuple[tuple[str, int], ...]
    """The values that live across it beside that, with their bytes."""

    @property
    def together(self) -> int:
        """The bytes of both."""
        return self.own + sum(count for _, count in self.across)


def shared_steps(explanation: Explanation) -> list[SharedStep]:
    """Return the steps with what they take, if values pass between several of which one has a working memory.

    An input of the model is there from the start, an output until the end. What a device with a working memory reads
    last in a step, and what it writes, is a part of what it takes.
    """
    steps = explanation.steps
    if len(steps) < 2 or not any(step.working_bytes for step in steps):
        return []
    if any(story.step == WALKED for story in explanation.operations):
        return []  # a loop runs steps again, and edges tell of main only
    lives: dict[str, tuple[int, int, int]] = {}
    readers: dict[str, set[int]] = {}
    for edge in explanation.edges:
        reader = len(steps) - 1 if edge.destination_step == CLIENT_STEP else edge.destination_step
        first, last, _ = lives.get(edge.value, (max(edge.source_step, 0), 0, 0))
        lives[edge.value] = first, max(last, reader), edge.bytes
        readers.setdefault(edge.value, set()).add(edge.destination_step)
    makers = {edge.value: edge.source_step for edge in explanation.edges}
    found = []
    for number, step in enumerate(steps):
        alive = [name for name, (first, last, _) in lives.items() if first <= number <= last]
        own = {
            name
            for name in alive
            if makers[name] == number
            or (number in readers[name] and (not step.working_bytes or lives[name][1] == number))
        }
        taken = step.working_bytes or sum(lives[name][2] for name in own)
        found.append(
            SharedStep(number, step.device, taken, tuple((name, lives[name][2]) for name in alive if name not in own))
        )
    return found


def working_memory(explanation: Explanation) -> Iterator[str | ReportTable[SharedStep]]:
    """Yield a table of the steps, and which takes the most; nothing if there is nothing to say."""
    steps = shared_steps(explanation)
    if not steps:
        return
    columns: list[Column[SharedStep]] = [
        Column("step", lambda row: str(row.step), number=True),
        Column("device", lambda row: row.device),
        Column("its own", lambda row: size(row.own), number=True),
        Column("lives across", lambda row: Name(", ".join(name for name, _ in row.across)), wraps=True),
        Column("together", lambda row: size(row.together), number=True),
    ]
    caption = "What is taken of one working memory while each step runs, if all steps share it."
    yield ReportTable("Working memory, if all steps share one", columns, steps, caption=caption)
    yield most_words(steps)


def most_words(steps: list[SharedStep]) -> str:
    """Say in which step the most is taken, and what that is made of."""
    most = max(steps, key=lambda each: each.together)
    across = "".join(f" + {name} {count:,}" for name, count in most.across)
    beside = f" ({most.own:,} of its own{across})" if across else ""
    return (
        f"working memory, if all steps share one: {most.together:,} bytes in step {most.step} on {most.device}{beside}"
    )
