from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal_mlip.program.program import MlipProgram, TensorType
from nnhal_mlip.simulator.report import program_bound
from nnhal_mlip.timing.cycles import copy_cycles, transfer_cycles, work_cycles, work_of
from nnhal_mlip.timing.profile import read_profile
from nnhal_mlip.timing.queues import DeadlockError, timeline
from nnhal_mlip.timing.usage import usage
from tests.support.mlip_networks import mobilenet, network_program
from tests.support.mlip_small_program import small_program

PROFILE = read_profile()
PLAIN, _ = small_program()
PINNED, _ = small_program(pinned=True)
LATE = replace(PLAIN.stages[0], after_transfers=4)


def test_a_program_runs_transfers_and_stages_as_they_wait_for_each_other() -> None:
    times = timeline(PLAIN, PROFILE)
    loads = [transfer_cycles(transfer, PROFILE) for transfer in PLAIN.transfers]
    assert [(span.begin, span.end) for span in times.transfers[:3]] == [
        (0, loads[0]),
        (loads[0], loads[0] + loads[1]),
        (loads[0] + loads[1], sum(loads[:3])),
    ]
    first, second = times.stages
    assert (first.ready, first.begin) == (0, sum(loads[:3]))
    assert first.copied == first.begin + copy_cycles(PLAIN.stages[0], PROFILE)
    task = first.copied + 64 + work_cycles(work_of(PLAIN.stages[0].tasks[0]), PROFILE).duration
    assert (first.computed, first.end) == (task, task + 128)
    assert second.ready == second.begin == second.copied == first.end
    assert [(span.ready, span.begin) for span in times.transfers[3:]] == [
        (first.begin, second.end),
        (second.end + loads[3], second.end + loads[3]),
    ]
    assert times.total == second.end + loads[3] + loads[4]


def test_tasks_of_a_tile_run_in_turn_and_those_of_others_beside_them() -> None:
    stage = PLAIN.stages[1]
    twice = replace(PLAIN, stages=(PLAIN.stages[0], replace(stage, tasks=(*stage.tasks, stage.tasks[0]))))
    spans = timeline(twice, PROFILE).stages[1].tasks
    assert spans[0].issue == spans[1].issue
    assert spans[2].issue == spans[0].end
    assert [span.begin - span.issue for span in spans] == [64] * 3
    assert timeline(twice, PROFILE).stages[1].computed == spans[2].end


def test_transfers_at_start_are_of_no_run() -> None:
    times = timeline(PINNED, PROFILE)
    assert times.start == transfer_cycles(PINNED.transfers[0], PROFILE)
    assert [span.transfer for span in times.transfers] == [1, 2, 3, 4]
    assert times.total == timeline(PLAIN, PROFILE).total - times.start


def test_a_program_that_does_nothing_takes_no_time() -> None:
    assert timeline(replace(PLAIN, transfers=(), stages=()), PROFILE).total == 0


@pytest.mark.parametrize(
    "program, message",
    [
        (
            replace(PLAIN, stages=(replace(PLAIN.stages[0], after_transfers=4), PLAIN.stages[1])),
            "transfer 3 waits for 2",
        ),
        (replace(PLAIN, stages=(replace(PLAIN.stages[0], after_transfers=6),)), "transfer 3 waits for 2 stages, and"),
        (replace(PLAIN, transfers=PLAIN.transfers[:2]), "stage 0 waits for 3 transfers, expected at most 2"),
        (replace(PLAIN, stages=PLAIN.stages[:1]), "transfer 3 waits for 2 stages, expected at most 1"),
    ],
)
def test_queues_that_wait_for_ever_are_refused(program: MlipProgram, message: str) -> None:
    with pytest.raises(DeadlockError, match=message):
        timeline(program, PROFILE)


@pytest.mark.parametrize(
    "program",
    [
        PLAIN,
        PINNED,
        small_program(TensorType.INT8)[0],
        network_program(mobilenet(), TensorType.FP16, 5, PROFILE),
        network_program(mobilenet(), TensorType.INT8, 8, PROFILE, pinned=True),
    ],
    ids=["plain", "pinned", "int8", "fp16 network", "pinned network"],
)
def test_every_cycle_of_tiles_and_dma_has_its_reason(program: MlipProgram) -> None:
    times = timeline(program, PROFILE)
    found = usage(program, times)
    for tile in range(program.tiles):
        mine = [use for (_, number), use in found.tiles.items() if number == tile]
        assert sum(use.total for use in mine) == times.total
        assert all(max(use.array + use.irregular, use.read, use.write) <= use.computing for use in mine)
    assert sum(use.busy + use.waiting + use.idle for use in found.dma.values()) == times.total
    assert times.total >= program_bound(program, PROFILE)


def test_what_a_layer_waits_for_is_its_own() -> None:
    found = usage(PLAIN, timeline(PLAIN, PROFILE))
    assert found.tiles[0, 0].waiting_transfers > 0
    assert found.tiles[1, 0].waiting_transfers == 0
    assert found.tiles[0, 1].array > 0 == found.tiles[0, 1].irregular
    assert found.tiles[1, 1].irregular > 0 == found.tiles[1, 1].array
    assert found.tiles[1, 1].idle > 0
    assert (found.dma[0].waiting, found.dma[1].waiting > 0) == (0, True)
