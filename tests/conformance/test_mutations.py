"""The families of invalid models: what the vectors have of each operation, with one thing wrong at every place.

In this process: what is asked is whether validation knows every signature. They are read from NNHAL_CONFORMANCE.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.errors import HalError
from nnhal.types import Model, OperationType, Subgraph
from nnhal.validation import validate_model
from nnhal_client.conformance.vectors import read_vectors
from tests.support.model_mutations import FAMILIES, still_valid
from tests.support.refusals import INVALID

_FOLDER = os.environ.get("NNHAL_CONFORMANCE", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _FOLDER, reason="NNHAL_CONFORMANCE names no folder of vectors"),
]
Form = tuple[int, ...]


@pytest.fixture(scope="module")
def models() -> dict[Form, Model]:
    """The smallest model with each form of each operation: its type, and those of its first inputs and output."""
    smallest: dict[Form, Model] = {}
    for path in sorted(Path(_FOLDER).glob("*.jsonl*")):
        for vector in read_vectors(path):
            if vector.expect_failure:
                continue
            for graph in (vector.model.main, *vector.model.referenced):
                for form in forms(graph):
                    if form not in smallest or size(vector.model) < size(smallest[form]):
                        smallest[form] = vector.model
    return smallest


def forms(graph: Subgraph) -> Iterator[Form]:
    for operation in graph.operations:
        operands = (*operation.inputs[:2], operation.outputs[0])
        yield operation.type, *(graph.operands[index].type for index in operands)


def size(model: Model) -> tuple[int, int]:
    return sum(len(graph.operands) for graph in (model.main, *model.referenced)), len(model.operand_values)


@pytest.mark.contract(*FAMILIES)
@pytest.mark.parametrize("operation", OperationType, ids=lambda o: o.name)
def test_every_mutation_of_every_operation_is_invalid(models: dict[Form, Model], operation: OperationType) -> None:
    chosen = [model for form, model in models.items() if form[0] == operation]
    assert chosen
    for model in chosen:
        validate_model(model)
        for row, family in FAMILIES.items():
            for mutation in family(model):
                try:
                    validate_model(mutation.model)
                except HalError as error:
                    assert error.status == INVALID, f"{row}: {mutation.what}: {error}"
                else:
                    pytest.fail(f"{row}: it is accepted that {mutation.what}")


@pytest.mark.contract("VM-09", "VM-16")
def test_other_types_and_fewer_inputs_are_valid_where_the_operation_takes_them(models: dict[Form, Model]) -> None:
    for model in models.values():
        for mutation in still_valid(model):
            validate_model(mutation.model)
