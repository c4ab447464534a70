"""The order in which the two queues may proceed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import MlipProgram


class QueueStep(NamedTuple):
    """The next thing that is done."""

    stage: bool
    """A stage; otherwise a transfer."""
    number: int
    """Among the program's stages or transfers."""


def steps_of(program: MlipProgram, late: bool = False) -> Iterator[QueueStep]:
    """Yield a run's steps in an order that the queues allow, without the transfers at the start.

    Transfers come as early as they can, or if ``late`` as late as they can. Any transfer and stage whose order is
    not prescribed have one order in the first and the other in the second.

    Raises:
        ProgramError: the queues wait for each other for ever.
    """
    transfers = stages = 0
    while transfers < len(program.transfers) or stages < len(program.stages):
        transfer_ready = transfers < len(program.transfers) and program.transfers[transfers].after_stage <= stages
        stage_ready = stages < len(program.stages) and program.stages[stages].after_transfers <= transfers
        if transfer_ready and not (late and stage_ready):
            if not program.transfers[transfers].at_start:
                yield QueueStep(False, transfers)
            transfers += 1
        elif stage_ready:
            yield QueueStep(True, stages)
            stages += 1
        else:
            raise ProgramError(
                f"what is next in {program.name}",
                _waits(program, transfers, stages),
                "one that waits for none after it",
            )


def _waits(program: MlipProgram, transfers: int, stages: int) -> str:
    waits = []
    if transfers < len(program.transfers):
        waits.append(f"transfer {transfers} after {program.transfers[transfers].after_stage} stages")
    if stages < len(program.stages):
        waits.append(f"stage {stages} after {program.stages[stages].after_transfers} transfers")
    return " and ".join(waits)
