"""Inputs of ONNX's operators that have no result: indices, lengths and axes out of range, and shapes that do not fit.

ONNX's reference evaluator computes something with them: it clamps them, wraps them around, or leaves out what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array

_Inputs = Sequence[Any]
_Attributes = Mapping[str, Any]
_Check = Callable[[_Inputs, _Attributes], Iterator[str]]
"""Says what is wrong with the inputs of a node, those that are left out being None, and its attributes."""


def require_in_range(operator: str, inputs: _Inputs, attributes: _Attributes) -> None:
    """Raise ValueError if an operator has no result for inputs."""
    check = CHECKS.get(operator)
    if check is not None:
        padded = [*inputs, *[None] * _MOST_INPUTS]
        for wrong in check(padded, attributes):
            raise ValueError(f"{operator}: {wrong}")


_MOST_INPUTS = 8


def _outside(what: str, given: Any, least: float, most: float) -> Iterator[str]:
    """Say which of some numbers lies outside a range, both ends of which belong to it."""
    numbers = np.ravel([] if given is None else given)
    wrong = numbers[(numbers < least) | (numbers > most)]
    if wrong.size:
        yield f"{what} {wrong[0]}, expected from {least} to {most}"


def _different(what: str, got: Sequence[int], expected: Sequence[int]) -> Iterator[str]:
    if list(got) != list(expected):
        yield f"{what} {list(got)}, expected {list(expected)}"


def _convolution(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    image, rank = inputs[0], inputs[0].ndim - 2
    pads, dilations = attributes.get("pads") or [0] * 2 * rank, attributes.get("dilations") or [1] * rank
    if image.size and attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID"):
        for axis, size in enumerate(inputs[1].shape[2:]):
            reach = (size - 1) * dilations[axis] + 1
            length = image.shape[axis + 2] + pads[axis] + pads[axis + rank]
            if length < reach:
                yield f"a filter over {reach} elements of an axis of {length} with its pads"


def _gather_elements(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    length = inputs[0].shape[attributes.get("axis", 0)]
    yield from _outside("index", inputs[1], -length, length - 1)


def _scatter_elements(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    yield from _gather_elements(inputs, attributes)
    yield from _different("updates of dimensions", inputs[2].shape, inputs[1].shape)


def _scatter_nd(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    data, indices, updates = (each.shape for each in inputs[:3])
    yield from _different("updates of dimensions", updates, (*indices[:-1], *data[indices[-1] :]))


def _reshape(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("length", inputs[1], -1, np.inf)


def _tile(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    if inputs[2] is None:  # else it is that of the first opset
        yield from _different("repeats of dimensions", inputs[1].shape, [inputs[0].ndim])


def _slice(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    axes = attributes.get("axes") if inputs[1] is None else inputs[3]
    yield from _axes(inputs[0], axes)
    if axes is not None and len(set(np.asarray(axes) % inputs[0].ndim)) < len(axes):
        yield f"axes {np.asarray(axes).tolist()}, expected each once"


def _axes(data: Array, axes: Any) -> Iterator[str]:
    yield from _outside("axis", axes, -data.ndim, data.ndim - 1)


def _reduction(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    yield from _axes(inputs[0], attributes.get("axes") if inputs[1] is None else inputs[1])


def _pad(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    pads = attributes.get("pads") if inputs[1] is None else inputs[1]
    if pads is not None:
        axes = range(inputs[0].ndim) if inputs[3] is None else inputs[3].tolist()
        before, after = np.reshape(pads, (2, -1))
        for axis, first, last in zip(axes, before, after, strict=True):
            length = inputs[0].shape[axis]
            if length + first + last < 0:
                yield f"pads {first} and {last} take more than the {length} elements of axis {axis}"


def _topk(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    yield from _outside("k", attributes.get("k", inputs[1]), 0, inputs[0].shape[attributes.get("axis", -1)])


def _split(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    sizes = attributes.get("split", inputs[1])
    length = inputs[0].shape[attributes.get("axis", 0)]
    yield from _outside("length", sizes, 0, length)
    if sizes is not None and np.sum(sizes) != length:
        yield f"lengths {np.asarray(sizes).tolist()} of an axis of {length}"


def _reverse_sequence(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    yield from _outside("length", inputs[1], 0, inputs[0].shape[attributes.get("time_axis", 0)])


def _recurrent(inputs: _Inputs, attributes: _Attributes) -> Iterator[str]:
    yield from _outside("length", inputs[4], 0, inputs[0].shape[attributes.get("layout", 0)])


def _one_hot(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("depth", inputs[1], 1, np.inf)


def _max_unpool(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("index", inputs[1], 0, np.inf)


def _roi_align(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("batch index", inputs[2], 0, inputs[0].shape[0] - 1)


def _resize(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    for what, each in (("scale", inputs[2]), ("length", inputs[3])):
        if each is not None and inputs[0].size and (np.asarray(each) <= 0).any():
            yield f"{what} {np.min(each)}, expected one above 0"


def _non_max_suppression(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("iou_threshold", inputs[3], 0, 1)
    yield from _different("boxes", inputs[0].shape[:2], (inputs[1].shape[0], inputs[1].shape[2]))


def _stft(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("frame_step", inputs[1], 1, np.inf)


def _window(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("size", inputs[0], 0, np.inf)


def _affine_grid(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _different("a batch of", inputs[1][:1].tolist(), inputs[0].shape[:1])


def _grid_sample(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _different("a batch of", inputs[1].shape[:1], inputs[0].shape[:1])


def _dropout(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("ratio", inputs[1], 0, np.nextafter(1, 0))


def _rotary_embedding(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    yield from _outside("position", inputs[3], 0, inputs[1].shape[0] - 1)


def _division(inputs: _Inputs, _: _Attributes) -> Iterator[str]:
    if inputs[1].dtype.kind in "iu" and not inputs[1].all():
        yield "integers are divided by 0"


CHECKS: Mapping[str, _Check] = {
    "AffineGrid": _affine_grid,
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "Div": _division,
    "Dropout": _dropout,
    "GatherElements": _gather_elements,
    "GridSample": _grid_sample,
    "MaxUnpool": _max_unpool,
    "Mod": _division,
    "NonMaxSuppression": _non_max_suppression,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "ReverseSequence": _reverse_sequence,
    "RoiAlign": _roi_align,
    "RotaryEmbedding": _rotary_embedding,
    "STFT": _stft,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "Split": _split,
    "Tile": _tile,
    "TopK": _topk,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    **{
        f"Reduce{name}": _reduction
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}
"""Checks by operator; found by trying each operator beside ONNX Runtime, which refuses what they refuse."""
