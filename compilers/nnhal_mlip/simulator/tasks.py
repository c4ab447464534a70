"""Executes a task in the OCM of its tile."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.program import TensorType, TileTask
from nnhal_mlip.simulator.arithmetic.compute import compute
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands
from nnhal_mlip.simulator.elements import ELEMENT_DTYPES
from nnhal_mlip.simulator.errors import SimulatorError
from nnhal_mlip.simulator.memory import view_of


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
    """A value for each output channel."""
    if address < 0:
        return None
    return np.ndarray((task.output.shape[3],), dtype, ocm.data, address)
