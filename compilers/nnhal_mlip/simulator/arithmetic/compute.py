"""What each kind of task computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import UNCLIPPED, TaskKind, TensorType, TileTask
from nnhal_mlip.simulator.arithmetic.convolution import convolution
from nnhal_mlip.simulator.arithmetic.depthwise import depthwise
from nnhal_mlip.simulator.arithmetic.elementwise import total
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands
from nnhal_mlip.simulator.arithmetic.pooling import average_pool, max_pool
from nnhal_mlip.simulator.arithmetic.rounding import finished

COMPUTED = frozenset(
    {
        TensorType.INT8,
        TensorType.UINT8,
        TensorType.INT16,
        TensorType.UINT16,
        TensorType.FP16,
        TensorType.FP32,
    }
)
"""The types that tasks compute with."""

_KINDS: Mapping[TaskKind, Callable[[TileTask, TaskOperands], Array]] = MappingProxyType(
    {
        TaskKind.CONVOLUTION: convolution,
        TaskKind.DEPTHWISE: depthwise,
        TaskKind.MAX_POOL: max_pool,
        TaskKind.AVERAGE_POOL: average_pool,
        TaskKind.SUM: total,
        TaskKind.COPY: total,
    }
)


def compute(task: TileTask, operands: TaskOperands, dtype: np.dtype[np.generic]) -> Array:
    """Return a task's output, of the type given and the shape of its output view. Floats may become infinite or NaN."""
    if moves(task) and operands.inputs[0].dtype == dtype:
        return operands.inputs[0]
    with np.errstate(all="ignore"):
        return finished(_KINDS[task.kind](task, operands), dtype, task.range, task.output_scale)


def moves(task: TileTask) -> bool:
    """Whether a task moves values as they are, if the types are equal."""
    return task.kind == TaskKind.COPY and task.range == UNCLIPPED and all(by == 1.0 for by in task.input_factors)
