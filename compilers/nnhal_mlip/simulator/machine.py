"""Executes programs: OCM, DDR, the two queues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import DdrRange, MlipProgram, TensorType, TileTask
from nnhal_mlip.program.program_checks import check_program
from nnhal_mlip.simulator.arithmetic.compute import COMPUTED, compute, moves
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands
from nnhal_mlip.simulator.errors import SimulatorError
from nnhal_mlip.simulator.memory import ELEMENT_DTYPES, ddr_bytes, fresh_memories, pieces, view_of
from nnhal_mlip.simulator.order import steps_of


def nothing() -> None:
    """Let a run go on."""


class TileMachine:
    """A loaded program. Runs keep no state here, so several threads may run it."""

    def __init__(self, program: MlipProgram, weights: Bytes) -> None:
        """Check the program, and do the transfers that are done once. Raises ProgramError."""
        check_program(program, len(weights))
        _check_types(program)
        _check_outputs(program)
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
            SimulatorError: constants make no sense.
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


def _check_types(program: MlipProgram) -> None:
    """Types of more than 24 bits would lose some, unless they are copied as they are."""
    for number, stage in enumerate(program.stages):
        for task in stage.tasks:
            types = {view.type for view in (*task.inputs, task.output)}
            if not types <= COMPUTED and not (moves(task) and len(types) == 1):
                place = f"{task.kind.name} in stage {number} ({program.layers[stage.layer].name})"
                expected = ", ".join(sorted(type_.name for type_ in COMPUTED))
                raise ProgramError(f"the types of {place}", ", ".join(sorted(type_.name for type_ in types)), expected)


def _check_outputs(program: MlipProgram) -> None:
    """Each byte of the outputs must be stored."""
    stored = np.zeros(ddr_bytes(program, DdrRange.OUTPUTS), np.bool_)
    for transfer in program.transfers:
        if transfer.store and transfer.ddr == DdrRange.OUTPUTS:
            pieces(stored, transfer.ddr_bytes)[...] = True
    for port in program.outputs:
        count = int(np.count_nonzero(stored[port.offset : port.offset + port.bytes]))
        if count < port.bytes:
            raise ProgramError(f"what is stored of the output {port.name}", f"{count} bytes", f"all {port.bytes}")


def execute(task: TileTask, ocm: Bytes) -> None:
    """Execute a task that has been checked. Raises SimulatorError: a factor is no number."""
    integers = task.weights is not None and task.weights.type == TensorType.INT8
    operands = TaskOperands(
        tuple(view_of(ocm, view) for view in task.inputs),
        None if task.weights is None else view_of(ocm, task.weights),
        _channels(task, ocm, task.biases, np.dtype("<i4" if integers else "<f4")),
        _channels(task, ocm, task.factors, np.dtype("<f4")),
    )
    if operands.factors is not None and not np.isfinite(operands.factors).all():
        raise SimulatorError(f"a factor of {task.kind.name} at {task.factors} is not finite, expected a number")
    view_of(ocm, task.output)[...] = compute(task, operands, ELEMENT_DTYPES[task.output.type])


def _channels(task: TileTask, ocm: Bytes, address: int, dtype: np.dtype[np.generic]) -> Array | None:
    if address < 0:
        return None
    return np.ndarray((task.output.shape[3],), dtype, ocm.data, address)
