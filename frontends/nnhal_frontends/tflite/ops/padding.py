"""PAD, PADV2 and MIRROR_PAD."""

from __future__ import annotations

from tflite import MirrorPadMode, MirrorPadOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder

_MODES = {MirrorPadMode.REFLECT: 0, MirrorPadMode.SYMMETRIC: 1}


def pad(b: OperatorBuilder) -> None:
    """PAD with zeros."""
    b.finish(OperationType.PAD, [b.input(0), b.input(1)])


def pad_v2(b: OperatorBuilder) -> None:
    """PAD_V2 with a constant scalar, which for quantised tensors is the quantised value."""
    values = b.required(2, "value")
    if values.size != 1:
        raise b.unsupported(f"a value of {values.size} elements", "one")
    tensor = b.input(0)
    value = values.reshape(-1)[0].item()
    scalar = b.int32(value) if b.is_quantized(tensor) else b.real_like(tensor, value)
    b.finish(OperationType.PAD_V2, [tensor, b.input(1), scalar])


def mirror_pad(b: OperatorBuilder) -> None:
    mode = b.options(MirrorPadOptions).Mode
    if mode not in _MODES:
        raise b.unsupported(f"mode {mode}", "REFLECT, SYMMETRIC")
    b.finish(OperationType.MIRROR_PAD, [b.input(0), b.input(1), b.int32(_MODES[mode])])
