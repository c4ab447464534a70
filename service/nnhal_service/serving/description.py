"""What a served model says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnhal_service.serving.request import Parameter


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """An input or output: ``datatype`` by the protocol's name (FP32, BYTES and so on), ``shape`` with -1 where open.

    The shape has the batch axis, where the model has one. ``parameters`` have ``scale`` and ``zero_point`` of
    quantised ones.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
