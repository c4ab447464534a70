"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def convert(to: Emitter) -> None:
    """The reals stay, what holds them changes: the graph converts on either side."""
    layout = to.common_layout((0,))
    to.keep_real(to.real(0, layout), layout)
