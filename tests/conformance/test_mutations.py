"""The families of invalid models: the vectors' models of each operation, with one mutation at every place.

They test in this process whether validation knows every signature. NNHAL_CONFORMANCE has the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, Signature
from nnhal.types import OperationType
from nnhal.validation import validate_model
from nnhal_tools.cases.case import Case
from tests.conformance.vectors import NEEDS_VECTORS, Form, smallest_by_form
from tests.support.model_mutations import FAMILIES, still_valid
from tests.support.refusals import INVALID

pytestmark = NEEDS_VECTORS


@pytest.fixture(scope="module")
def vectors() -> Mapping[Form, Case]:
    return smallest_by_form()


class _Rank(tuple[int, ...]):
    """Dimensions of which only the number can be asked for."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("validation has looked at a length")

    __getitem__ = __contains__ = __eq__ = __iter__  # type: ignore[assignment]
    __hash__ = tuple.__hash__


@pytest.mark.parametrize("operation", OperationType, ids=lambda o: o.name)
def test_validation_of_an_operation_looks_at_lengths_only_if_it_says_so(
    vectors: Mapping[Form, Case], operation: OperationType
) -> None:
    definition = DEFINITIONS.get(operation)
    if definition is None or definition.compares_lengths:
        return
    for model in (vector.model for form, vector in vectors.items() if form[0] == operation):
        for graph in (model.main, *model.referenced):
            operands = [replace(operand, dimensions=_Rank(operand.dimensions)) for operand in graph.operands]
            for found in graph.operations:
                if found.type == operation:
                    inputs, outputs = ([operands[i] for i in each] for each in (found.inputs, found.outputs))
                    definition.validate(
                        Signature(OperationContext(operation, operation.name, inputs, outputs, lambda _: None))
                    )


@pytest.mark.contract(*FAMILIES)
@pytest.mark.parametrize("operation", OperationType, ids=lambda o: o.name)
def test_every_mutation_of_every_operation_is_invalid(vectors: Mapping[Form, Case], operation: OperationType) -> None:
    chosen = [vector.model for form, vector in vectors.items() if form[0] == operation]
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
def test_other_types_and_fewer_inputs_are_valid_where_the_operation_takes_them(vectors: Mapping[Form, Case]) -> None:
    for vector in vectors.values():
        for mutation in still_valid(vector.model):
            validate_model(mutation.model)
