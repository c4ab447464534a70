"""Checks that a task can run: its views lie in OCM, and its shapes, types and factors fit together."""

from __future__ import annotations

from math import isfinite, isnan, prod

from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import (
    ELEMENT_KINDS,
    JOINING_KINDS,
    OCM_BYTES,
    ONE_BY_ONE,
    OcmView,
    TaskKind,
    TaskWindow,
    TensorType,
    TileTask,
)
from nnhal_mlip.program.sizes import TYPE_BYTES
from nnhal_mlip.program.tables import TableKind

MAX_PADDED = 1 << 24
"""Elements of an input with its padding: more is no work for a tile, whose memory is a sixteenth of it."""
_CHANNEL_BYTES = 4
"""The bytes of a bias or factor."""
_WITH_WEIGHTS = (TaskKind.CONVOLUTION, TaskKind.DEPTHWISE)
_POOLS = (TaskKind.MAX_POOL, TaskKind.AVERAGE_POOL)


def check_task(place: str, task: TileTask, arithmetic: TensorType, floor: int) -> None:
    """Refuse a task that cannot run, or that writes below an address. ``place`` is what the message calls it.

    Raises:
        ProgramError: with what is wrong.
    """
    for index, view in enumerate(task.inputs):
        _view(f"input {index} of {place}", view, 0)
    _view(f"output of {place}", task.output, floor)
    _apart(f"output of {place}", task.output)
    if task.kind not in JOINING_KINDS and len(task.inputs) != 1:
        raise ProgramError(f"number of inputs of {place}", len(task.inputs), "1")
    if not task.inputs:
        raise ProgramError(f"number of inputs of {place}", 0, "at least 1")
    if task.kind in _WITH_WEIGHTS:
        _weights(place, task, arithmetic)
    elif task.weights is not None:
        raise ProgramError(f"weights of {place}", task.weights.shape, f"none, since it is {task.kind.name}")
    if (task.kind is TaskKind.NORMALIZATION) != (task.range.table.kind is TableKind.RSQRT):
        raise ProgramError(f"table of {place}", task.range.table.kind.name, "RSQRT for NORMALIZATION, and only then")
    if task.kind is TaskKind.MATMUL:
        _matmul(place, task, arithmetic)
    elif task.kind in ELEMENT_KINDS:
        for index, view in enumerate(task.inputs):
            if view.shape != task.output.shape:
                raise ProgramError(f"input {index} of {place}", view.shape, f"the output's shape {task.output.shape}")
    else:
        _window(place, task)
    if task.kind in (*ELEMENT_KINDS, TaskKind.MATMUL) and task.window != ONE_BY_ONE:
        raise ProgramError(f"window of {place}", task.window.kernel, f"none, since it is {task.kind.name}")
    _addresses(place, task)
    _reals(place, task, arithmetic)


def _view(what: str, view: OcmView, low: int) -> None:
    if any(extent < 1 for extent in view.shape) or any(stride < 0 for stride in view.strides):
        raise ProgramError(what, (view.shape, view.strides), "extents of at least 1, and strides of at least 0")
    if prod(view.shape) > OCM_BYTES:
        raise ProgramError(f"elements of {what}", prod(view.shape), f"at most {OCM_BYTES}, the bytes of OCM")
    last = sum((extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True))
    end = view.address + last + TYPE_BYTES[view.type]
    if view.address < low or end > OCM_BYTES:
        raise ProgramError(what, f"{view.address} to {end}", f"within {low} to {OCM_BYTES} bytes of OCM")


def _apart(what: str, view: OcmView) -> None:
    """Refuse a view in which two elements may share a byte."""
    span = TYPE_BYTES[view.type]
    for stride, extent in sorted(zip(view.strides, view.shape, strict=True)):
        if extent > 1:
            if stride < span:
                raise ProgramError(what, (view.shape, view.strides), "elements that do not overlap")
            span += (extent - 1) * stride


def _weights(place: str, task: TileTask, arithmetic: TensorType) -> None:
    weights, image, channels = task.weights, task.inputs[0], task.output.shape[3]
    if weights is None:
        raise ProgramError(f"weights of {place}", "missing", f"some, since it is {task.kind.name}")
    _view(f"weights of {place}", weights, 0)
    if task.kind is TaskKind.CONVOLUTION:
        expected = (channels, *task.window.kernel, image.shape[3])
    else:
        expected = (1, *task.window.kernel, channels)
        if image.shape[3] != channels:
            raise ProgramError(f"input channels of {place}", image.shape[3], f"{channels}, as in the output")
    if weights.shape != expected:
        raise ProgramError(f"weights of {place}", weights.shape, f"{expected} of its window and channels")
    for what, view in (("input", image), ("weights", weights)):
        if view.type is not arithmetic:
            raise ProgramError(f"type of the {what} of {place}", view.type.name, arithmetic.name)


def _matmul(place: str, task: TileTask, arithmetic: TensorType) -> None:
    if len(task.inputs) != 2:
        raise ProgramError(f"number of inputs of {place}", len(task.inputs), "2, since it is MATMUL")
    left, right = task.inputs
    for what, shape in (("input 0", left.shape), ("input 1", right.shape)):
        if shape[:2] != (1, 1) or shape[3] != left.shape[3]:
            raise ProgramError(f"{what} of {place}", shape, f"one matrix of {left.shape[3]} columns")
    if task.output.shape != (expected := (1, 1, left.shape[2], right.shape[2])):
        raise ProgramError(f"output of {place}", task.output.shape, f"{expected} of its inputs")
    for view in task.inputs:
        if view.type is not arithmetic:
            raise ProgramError(f"type of an input of {place}", view.type.name, arithmetic.name)


def _window(place: str, task: TileTask) -> None:
    window, image, output = task.window, task.inputs[0].shape, task.output.shape
    if image[0] != output[0]:
        raise ProgramError(f"batch of the output of {place}", output[0], f"{image[0]}, as in the input")
    if task.kind in _POOLS and image[3] != output[3]:
        raise ProgramError(f"channels of the output of {place}", output[3], f"{image[3]}, as in the input")
    if min(*window.kernel, *window.strides, *window.dilation) < 1:
        raise ProgramError(f"window of {place}", tuple(window), "a kernel, strides and dilation of at least 1")
    padded = image[0] * image[3]
    for axis, name in enumerate(("height", "width")):
        extent, before, after = image[1 + axis], window.padding[axis], window.padding[2 + axis]
        reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        padded *= max(extent + before + after, 0)
        steps = (extent + before + after - reach) // window.strides[axis] + 1
        if before < -extent or after < -extent or steps != output[1 + axis]:
            raise ProgramError(f"{name} of the output of {place}", output[1 + axis], f"{max(steps, 0)} of its window")
        if task.kind in _POOLS and not _all_meet(window, axis, extent, steps):
            raise ProgramError(f"padding of {place}", window.padding, "less, so that every window has an element")
    if padded > MAX_PADDED:
        raise ProgramError(f"elements of the padded input of {place}", padded, f"at most {MAX_PADDED}")


def _all_meet(window: TaskWindow, axis: int, extent: int, steps: int) -> bool:
    """Return whether all positions of a window have an element under them that is not padding."""
    kernel, stride, dilation = window.kernel[axis], window.strides[axis], window.dilation[axis]
    first, last = -window.padding[axis], (steps - 1) * stride - window.padding[axis]
    if last >= extent or first <= -kernel * dilation:
        return False
    for begin in range(first, min(last + 1, 0), stride):
        tap = -(begin // dilation)  # the first that is not in front
        if tap >= kernel or begin + tap * dilation >= extent:
            return False
    return True


def _addresses(place: str, task: TileTask) -> None:
    end = OCM_BYTES - _CHANNEL_BYTES * task.output.shape[3]
    for what, address in (("biases", task.biases), ("factors", task.factors)):
        if address != -1 and task.kind not in _WITH_WEIGHTS:
            raise ProgramError(f"{what} of {place}", address, f"-1, since it is {task.kind.name}")
        if not -1 <= address <= end:
            raise ProgramError(f"{what} of {place}", address, f"-1, or an address up to {end}")


def _reals(place: str, task: TileTask, arithmetic: TensorType) -> None:
    int8 = arithmetic is TensorType.INT8
    weighted = task.kind in _WITH_WEIGHTS
    if (task.factors != -1) != (int8 and weighted):
        expected = "-1, for it has no int8 weights" if task.factors != -1 else "an address, for it has int8 weights"
        raise ProgramError(f"factors of {place}", task.factors, expected)
    count = len(task.inputs) if int8 and not weighted else 0
    if len(task.input_factors) != count or not all(map(isfinite, task.input_factors)):
        raise ProgramError(f"input factors of {place}", task.input_factors, f"{count} finite numbers")
    if not (isfinite(task.output_scale) and task.output_scale > 0):
        raise ProgramError(f"output scale of {place}", task.output_scale, "more than 0")
    if not (isfinite(task.range.table.alpha) and isfinite(task.range.table.beta)):
        raise ProgramError(f"table of {place}", tuple(task.range.table), "finite parameters")
    if isnan(task.range.low) or isnan(task.range.high) or task.range.low > task.range.high:
        raise ProgramError(f"range of {place}", tuple(task.range[:2]), "two ends in order")
