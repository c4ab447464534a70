"""What conditions of faults ask about a model."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from nnhal.types import Model, OperationType
from nnhal.types.layout import is_extension

_DIGITS = 12


class ModelFacts(NamedTuple):
    """A model, as conditions of faults see it."""

    fingerprint: str
    """Digits that tell models apart by their operations and the types and dimensions of their operands.

    Models have no names over the HAL. Models that differ in the values of their constants only have the same one.
    """

    operations: frozenset[str]
    """The types of its operations, those of referenced subgraphs too."""

    working_bytes: int = 0
    """Bytes of the device's working memory that a run takes; 0 if that is unknown, or before it is prepared."""


def facts_of(model: Model) -> ModelFacts:
    """Look at a model."""
    digest = hashlib.sha256()
    operations: set[str] = set()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            digest.update(repr((int(operand.type), tuple(operand.dimensions), int(operand.lifetime))).encode())
        for operation in graph.operations:
            digest.update(repr((int(operation.type), tuple(operation.inputs), tuple(operation.outputs))).encode())
            operations.add(name_of_operation(operation.type))
    return ModelFacts(digest.hexdigest()[:_DIGITS], frozenset(operations))


def name_of_operation(code: int) -> str:
    """The name of a type of operations as the HAL has it; a number for one of an extension."""
    return f"{code:#x}" if is_extension(code) else OperationType(code).name
