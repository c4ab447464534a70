"""What a module of operators gives to the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal_service.frontends.onnx.builder import NodeBuilder
from nnhal_service.frontends.onnx.qdq import QuantizedForm


def _never(form: QuantizedForm) -> bool:
    del form
    return False


@dataclass(frozen=True, slots=True)
class Converter:
    """An ONNX operator.

    ``convert`` adds the operations of one node, or raises UnsupportedNode. ``quantized`` says whether it also takes the
    node with integers in place of floats.
    """

    convert: Callable[[NodeBuilder], None]
    quantized: Callable[[QuantizedForm], bool] = _never
