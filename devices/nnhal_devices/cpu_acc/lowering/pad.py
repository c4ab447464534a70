"""PAD, PAD_V2 and MIRROR_PAD."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.operations.movement import MirrorPadInput, PadInput, paddings_of_mirror_pad, paddings_of_pad
from nnhal.types import Operand, OperandType
from nnhal_devices.cpu_acc.elements import KEPT_TYPES, QUANTIZED, SIGN, kept_zero_point
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def pad(to: Emitter) -> None:
    """Elements are padded as they are kept, with zero or a given value."""
    layout = to.common_layout((PadInput.INPUT,))
    operand = to.op.inputs[PadInput.INPUT]
    value = _given(to, operand) if to.op.has(PadInput.VALUE) else _zero(operand)
    fill = to.graph.constant(np.array(value, KEPT_TYPES[operand.type]))
    paddings = to.graph.integers(_in_layout(paddings_of_pad(to.op), layout))
    to.keep(to.graph.add("Pad", to.kept(PadInput.INPUT, layout), paddings, fill), layout)


def mirror_pad(to: Emitter) -> None:
    """Reflect without the edge, as in ONNX."""
    layout = to.common_layout((MirrorPadInput.INPUT,))
    paddings = to.graph.integers(_in_layout(paddings_of_mirror_pad(to.op), layout))
    to.keep(to.graph.add("Pad", to.kept(MirrorPadInput.INPUT, layout), paddings, mode="reflect"), layout)


def _zero(operand: Operand) -> float:
    return kept_zero_point(operand) if operand.type in QUANTIZED else 0.0


def _given(to: Emitter, operand: Operand) -> float:
    signed = operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    return to.op.real(PadInput.VALUE) + (int(SIGN) if signed else 0)


def _in_layout(paddings: Sequence[tuple[int, int]], layout: Layout) -> list[int]:
    """ONNX wants all paddings before, then all after, in the order of the tensor's axes."""
    moved = list(paddings)
    for axis, pair in enumerate(paddings):
        moved[layout.axis(axis)] = pair
    return [before for before, _ in moved] + [after for _, after in moved]
