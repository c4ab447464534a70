"""The type of the entries of the table of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.qdq import QuantizedForm


def _never(form: QuantizedForm) -> bool:
    del form
    return False


@dataclass(frozen=True, slots=True)
class Converter:
    """The conversion of an ONNX operator.

    ``convert`` adds the operations of one node, or raises UnsupportedNode. ``quantized`` tells whether it also takes
    the node with integers instead of floats.
    """

    convert: Callable[[NodeBuilder], None]
    quantized: Callable[[QuantizedForm], bool] = _never
