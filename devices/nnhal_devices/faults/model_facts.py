"""What conditions of faults ask about a model."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
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


def facts_of(model: ResolvedModel) -> ModelFacts:
    """Look at a model."""
    digest = hashlib.sha256()
    operations: set[str] = set()
    for graph in model.subgraphs:
        for operand in graph.operands:
            digest.update(repr((int(operand.type), tuple(operand.dimensions), int(operand.lifetime))).encode())
        for operation in graph.operations:
            digest.update(repr((int(operation.type), tuple(operation.inputs), tuple(operation.outputs))).encode())
            operations.add(_name(operation.type))
    return ModelFacts(digest.hexdigest()[:_DIGITS], frozenset(operations))


def _name(code: int) -> str:
    return f"{code:#x}" if is_extension(code) else OperationType(code).name
