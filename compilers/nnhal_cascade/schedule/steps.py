"""The steps of a schedule in order: what the command stream says, and what the timeline counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from nnhal_cascade.geometry.box import Interval, cut
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.plan import Plan, WeightsIn
from nnhal_cascade.schedule.schedule import ConstantsBuffer, Schedule
from nnhal_cascade.schedule.walk import StripeRun, walk


class PlanStart(NamedTuple):
    plan: int


class ConstantsCopy(NamedTuple):
    """Constants are copied into a buffer of the working memory, beside the stripes that follow."""

    plan: int
    """The plan that uses them."""
    part: int
    channels: Interval
    """The channels of the part's output."""
    slot: int
    """The slot of the buffer."""


class StripeStep(NamedTuple):
    """A stripe runs, with the constants in their place."""

    run: StripeRun
    weights: WeightsIn
    slot: int
    """The slot of the buffer of its constants, if they are copied."""

    @property
    def part(self) -> int:
        """The part that runs."""
        return self.run.part


Step: TypeAlias = PlanStart | ConstantsCopy | StripeStep


def steps(
    schedule: Schedule, walked: Callable[[CascaderGraph, Plan, bool], Iterable[StripeRun]] = walk
) -> Iterator[Step]:
    """Yield the steps of a schedule; ``walked`` gives the stripes of each plan.

    Each plan first copies its constants that are not there yet, in the order in which its parts run. The constants of
    the next plan follow as soon as the plan has no more copies of its own, if their buffer is free by then.
    """
    for number, plan in enumerate(schedule.proposal.plans):
        yield PlanStart(number)
        runs = list(walked(schedule.graph, plan, schedule.reversed[number]))
        order = list(dict.fromkeys(run.part for run in runs))
        own = {each.part: each for each in schedule.constants if each.plan == number}
        early = [each for each in schedule.constants if each.plan == number + 1 and each.copied_in == number]
        weights = dict(zip(plan.parts, plan.weights, strict=True))
        doubled = {part for part, where in weights.items() if where == WeightsIn.DOUBLE_BUFFERED}
        slices = {part: [run.output.channels for run in runs if run.part == part] for part in doubled}
        for part in order:
            if part in own and own[part].copied_in == number:
                yield _first_copy(schedule, own[part])
        left = sum(len(each) - 1 for each in slices.values())
        if not left:
            yield from (_first_copy(schedule, each) for each in early)
        done: Counter[int] = Counter()
        for run in runs:
            slot = 0
            if run.part in doubled:
                slot = done[run.part] % 2
                done[run.part] += 1
                following = done[run.part]
                if following < len(slices[run.part]):
                    yield ConstantsCopy(number, run.part, slices[run.part][following], following % 2)
                    left -= 1
                    if not left:
                        yield from (_first_copy(schedule, each) for each in early)
            yield StripeStep(run, weights[run.part], slot)


def _first_copy(schedule: Schedule, buffer: ConstantsBuffer) -> ConstantsCopy:
    """The copy that the first stripe of a part in its plan waits for."""
    plan, graph = schedule.proposal.plans[buffer.plan], schedule.graph
    channels = Interval(0, graph.tensors[graph.parts[buffer.part].output].shape.channels)
    if buffer.slots > 1:
        backwards = schedule.reversed[buffer.plan] and len(plan.tiles) == 1
        channels = cut(channels, plan.stripes[plan.parts.index(buffer.part)])[-1 if backwards else 0]
    return ConstantsCopy(buffer.plan, buffer.part, channels, 0)
