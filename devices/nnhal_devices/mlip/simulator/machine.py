"""Executes programs: OCM, DDR, the two queues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Bytes
from nnhal_devices.mlip.program.program import DdrRange, MlipProgram
from nnhal_devices.mlip.simulator.checks import check_program
from nnhal_devices.mlip.simulator.memory import fresh_memories
from nnhal_devices.mlip.simulator.order import steps_of
from nnhal_devices.mlip.simulator.tasks import execute


def nothing() -> None:
    """Let a run go on."""


class TileMachine:
    """A loaded program. Runs keep no state here, so several threads may run it."""

    def __init__(self, program: MlipProgram, weights: Bytes) -> None:
        """Check the program, and do the transfers that are done once. Raises ProgramFaultError."""
        check_program(program, len(weights))
        self.program, self._weights = program, weights
        memories = fresh_memories(program, weights, np.zeros(0, np.uint8), np.uint8)
        for transfer in program.transfers:
            if transfer.at_start:
                memories.transfer(transfer)
        self._pinned = memories.ocm[:, : program.ocm_weights_bytes].copy()

    def run(self, inputs: Bytes, check: Callable[[], None] = nothing, late: bool = False) -> Bytes:
        """Run the program on what its inputs hold in DDR, and return what its outputs hold.

        ``check`` is called between stages, and may raise. ``late`` does transfers as late as the queues allow.

        Raises:
            ProgramFaultError: constants make no sense.
        """
        program = self.program
        memories = fresh_memories(program, self._weights, inputs, np.uint8)
        memories.ocm[:, : program.ocm_weights_bytes] = self._pinned
        for is_stage, number in steps_of(program, late):
            if not is_stage:
                memories.transfer(program.transfers[number])
                continue
            check()
            stage = program.stages[number]
            for copy in stage.copies:
                memories.copy(copy.source, copy.source_bytes, copy.tiles, copy.target_bytes)
            for task in stage.tasks:
                execute(task, memories.ocm[task.tile])
        return memories.ddr[DdrRange.OUTPUTS]
