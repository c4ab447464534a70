"""Whether a task's views fit together."""

from __future__ import annotations

from math import isfinite, isnan

from nnhal_devices.mlip.program.program import OcmView, TaskKind, TensorType, TileTask
from nnhal_devices.mlip.simulator.arithmetic.windows import output_size
from nnhal_devices.mlip.simulator.elements import is_float
from nnhal_devices.mlip.simulator.errors import ProgramFaultError
from nnhal_devices.mlip.simulator.spans import check_bytes, check_view

_WEIGHTED = (TaskKind.CONVOLUTION, TaskKind.DEPTHWISE)
_SLIDING = (*_WEIGHTED, TaskKind.MAX_POOL, TaskKind.AVERAGE_POOL)
_MOVED_ONLY = (TensorType.INT64, TensorType.UINT64)
"""Types that a task copies as they are: real arithmetic would not be exact."""


def check_task(task: TileTask) -> None:
    """Check a task's views, their shapes and types, and its numbers. Raises ProgramFaultError."""
    if not task.inputs or (task.kind != TaskKind.SUM and len(task.inputs) != 1):
        raise ProgramFaultError(f"{len(task.inputs)} inputs, expected {'some' if task.kind == TaskKind.SUM else 'one'}")
    for view in task.inputs:
        check_view(view, "an input")
    check_view(task.output, "the output", written=True)
    _check_numbers(task)
    if task.kind in _SLIDING:
        _check_window(task)
    else:
        for view in task.inputs:
            if view.shape != task.output.shape:
                raise ProgramFaultError(f"an input of shape {view.shape}, the output has {task.output.shape}")
    if task.kind in _WEIGHTED:
        _check_weights(task)
    elif task.weights is not None or task.biases >= 0 or task.factors >= 0:
        raise ProgramFaultError("weights, biases or factors, expected none")


def _check_numbers(task: TileTask) -> None:
    low, high = task.range
    if isnan(low) or isnan(high) or low > high:
        raise ProgramFaultError(f"a range of {low} to {high}, expected it in order")
    if not (isfinite(task.output_scale) and task.output_scale > 0):
        raise ProgramFaultError(f"an output scale of {task.output_scale}, expected a positive number")
    if task.input_factors and (
        len(task.input_factors) != len(task.inputs) or not all(isfinite(factor) for factor in task.input_factors)
    ):
        raise ProgramFaultError(
            f"the factors {task.input_factors} for {len(task.inputs)} inputs, expected one for each"
        )
    types = {view.type for view in task.inputs} | {task.output.type}
    if types & set(_MOVED_ONLY) and (len(types) > 1 or task.kind != TaskKind.COPY):
        raise ProgramFaultError(f"types {', '.join(sorted(type_.name for type_ in types))}, expected at most 32 bits")


def _check_window(task: TileTask) -> None:
    (view,), window = task.inputs, task.window
    if min(*window.kernel, *window.strides, *window.dilation) < 1:
        raise ProgramFaultError(f"{window}, expected numbers of at least 1")
    batch, height, width, channels = view.shape
    top, left, bottom, right = (max(-side, 0) for side in window.padding)
    if top + bottom >= height or left + right >= width:
        raise ProgramFaultError(f"the padding {window.padding} of an input of shape {view.shape} leaves nothing")
    expected = (batch, *output_size(height, width, window))
    if task.output.shape[:3] != expected:
        raise ProgramFaultError(f"an output of shape {task.output.shape}, expected {expected} and channels of {window}")
    if task.kind != TaskKind.CONVOLUTION and task.output.shape[3] != channels:
        raise ProgramFaultError(f"an output of {task.output.shape[3]} channels, the input has {channels}")


def _check_weights(task: TileTask) -> None:
    (view,), weights, channels = task.inputs, task.weights, task.output.shape[3]
    if weights is None:
        raise ProgramFaultError("no weights, expected some")
    check_view(weights, "the weights")
    if weights.type != view.type or weights.type not in (TensorType.FP16, TensorType.INT8):
        raise ProgramFaultError(
            f"weights of {weights.type.name} and an input of {view.type.name}, expected equal types"
        )
    if weights.shape != _weights_shape(task, view):
        raise ProgramFaultError(f"weights of shape {weights.shape}, expected {_weights_shape(task, view)}")
    if (task.factors >= 0) == is_float(view.type):
        raise ProgramFaultError(f"factors at {task.factors} for {view.type.name}, expected an address for INT8 alone")
    for address, what in ((task.biases, "biases"), (task.factors, "factors")):
        if address != -1:
            check_bytes(address, 4 * channels, what)


def _weights_shape(task: TileTask, view: OcmView) -> tuple[int, int, int, int]:
    channels = view.shape[3]
    outputs, depth = (task.output.shape[3], channels) if task.kind == TaskKind.CONVOLUTION else (1, channels)
    return outputs, *task.window.kernel, depth
