from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nnhal_service.partition import (
    Candidate,
    Options,
    Partitioning,
    PlacementError,
    Refused,
    Step,
    Strategy,
    partition,
    refine,
)
from tests.service.planning import chain_of, device, free, task_of
from tests.support.subgraphs import branches

TASK = task_of(chain_of(4), free)
FAST, SLOW = device("fast", [1] * 4, ratio=0.1), device("slow", [5] * 4, ratio=0.5)
CPU = device("cpu_ref", [9] * 4)


def place(candidates: Sequence[Candidate]) -> Partitioning:
    return partition(TASK, candidates, Options())


def layout(partitioning: Partitioning) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.device, step.operations) for step in partitioning.plan.steps]


def test_what_optimises_stays_as_it_is() -> None:
    refined = refine([FAST, CPU], place, lambda _: [])
    assert layout(refined.partitioning) == [("fast", (0, 1, 2, 3))]
    assert (refined.refused, refined.candidates) == ((), (FAST, CPU))


def test_what_fails_is_offered_to_the_next_device_and_the_rest_is_placed_again() -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def optimise(step: Step) -> list[tuple[tuple[int, ...], str]]:
        """The fast device fails on the model's third operation, the slow one on all."""
        asked.append((step.device, step.operations))
        failed = {"fast": {2}, "slow": {0, 1, 2, 3}, "cpu_ref": set[int]()}[step.device]
        indexes = tuple(index for index, number in enumerate(step.operations) if number in failed)
        return [(indexes, "no SRAM")] if indexes else []

    refined = refine([FAST, SLOW, CPU], place, optimise)
    assert layout(refined.partitioning) == [("fast", (0, 1)), ("cpu_ref", (2,)), ("fast", (3,))]
    assert refined.refused == (Refused(2, "fast", "no SRAM"), Refused(2, "slow", "no SRAM"))
    assert refined.candidates[0].refusals == {2: "its optimiser fails: no SRAM"}
    # no step that passed is optimised twice
    assert asked == [
        ("fast", (0, 1, 2, 3)),
        ("fast", (0, 1)),
        ("slow", (2,)),
        ("fast", (3,)),
        ("cpu_ref", (2,)),
    ]


def test_it_ends_with_what_every_optimiser_said_if_all_fail() -> None:
    def optimise(step: Step) -> list[tuple[tuple[int, ...], str]]:
        return [((0,), f"not {step.operations[0]}")]

    with pytest.raises(
        PlacementError, match=r"no device takes operation 0 .*fast: its optimiser fails: not 0; cpu_ref"
    ):
        refine([FAST, CPU], place, optimise)


def test_what_fails_within_control_flow_is_forbidden_there_only() -> None:
    """The fast device fails on the second addition of the second branch; all additions are alike."""
    task = task_of(branches(), free)
    fast = replace(device("fast", ratio=0.1, refusals={0: "no IF"}), referenced=({}, {}))
    cpu = replace(device("cpu_ref"), referenced=({}, {}))

    def optimise(step: Step) -> list[tuple[tuple[int, ...], str]]:
        return [((1,), "no SRAM")] if step.device == "fast" and len(step.operations) == 2 else []

    options = Options(Strategy.NNAPI)
    refined = refine([fast, cpu], lambda candidates: partition(task, candidates, options), optimise)
    assert layout(refined.partitioning) == [("fast", (0,)), ("fast", (0,)), ("cpu_ref", (1,))]
    assert refined.refused == (Refused(1, "fast", "no SRAM", 2),)
    assert refined.candidates[0].refusals_in(2) == {1: "its optimiser fails: no SRAM"}
    assert refined.candidates[0].refusals_in(1) == {}
