"""The operations of the NN HAL: signature, validation and output dimensions of each; no arithmetic.

One table from type to definition; the modules behind it are one for each operation or family. IF and WHILE are part of
model validation, since they are about subgraphs.
"""

from __future__ import annotations

from nnhal.operations import binary, softmax
from nnhal.operations._context import OperationContext, Signature, UnknownYet, channel_quant, type_name
from nnhal.operations._definition import OperationDefinition
from nnhal.types import OperationType

__all__ = [
    "DEFINITIONS",
    "OperationContext",
    "OperationDefinition",
    "Signature",
    "UnknownYet",
    "channel_quant",
    "type_name",
]

DEFINITIONS: dict[OperationType, OperationDefinition] = {
    definition.type: definition
    for definition in (
        binary.ADD,
        binary.DIV,
        binary.MUL,
        binary.SUB,
        softmax.SOFTMAX,
    )
}
"""Every operation that nnhal defines."""
