"""A selection of the conformance vectors in NNHAL_CONFORMANCE."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from nnhal.types import Model, Subgraph
from nnhal_tools.cases.case import Case
from nnhal_tools.cases.vectors import read_vectors

_FOLDER = os.environ.get("NNHAL_CONFORMANCE", "")
NEEDS_VECTORS = [
    pytest.mark.slow,
    pytest.mark.skipif(not _FOLDER, reason="NNHAL_CONFORMANCE names no folder of vectors"),
]
"""The marks of a module that reads conformance vectors."""
Form = tuple[int, ...]
"""A form of an operation: its type, and the types of its first two inputs and of its first output."""


def vector_lines() -> Iterator[str]:
    for path in sorted(Path(_FOLDER).glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from lines


@cache
def smallest_by_form(wanted: Callable[[Case], bool] = lambda _: True) -> Mapping[Form, Case]:
    """Return, for each form of each operation, the smallest vector that has it and must not fail."""
    smallest: dict[Form, Case] = {}
    for path in sorted(Path(_FOLDER).glob("*.jsonl*")):
        for vector in read_vectors(path):
            if vector.expect_failure or not wanted(vector):
                continue
            for form in _forms(vector.model):
                if form not in smallest or _size(vector.model) < _size(smallest[form].model):
                    smallest[form] = vector
    return smallest


def _forms(model: Model) -> Iterator[Form]:
    for graph in _graphs(model):
        for operation in graph.operations:
            operands = (*operation.inputs[:2], operation.outputs[0])
            yield operation.type, *(graph.operands[index].type for index in operands)


def _size(model: Model) -> tuple[int, int]:
    return sum(len(graph.operands) for graph in _graphs(model)), len(model.operand_values)


def _graphs(model: Model) -> tuple[Subgraph, ...]:
    return (model.main, *model.referenced)
