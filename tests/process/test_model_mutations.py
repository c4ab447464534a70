"""The families of invalid models: small models of every kind, with one mutation at every place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import Model
from nnhal_conformance.device import supported
from nnhal_conformance.rule import INVALID, refused
from nnhal_conformance.rules.models import require_invalid
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.ways import PREPARATIONS
from tests.support.calls import session_with
from tests.support.model_mutations import FAMILIES, still_valid
from tests.support.sample_models import SAMPLES

ROWS = [pytest.param(row, marks=pytest.mark.contract(row)) for row in FAMILIES]


@pytest.fixture(scope="module")
def session(cpu_ref: Endpoint) -> Iterator[DeviceSession]:
    """Open a session that the module's tests share."""
    with session_with(cpu_ref) as opened:
        yield opened


@pytest.fixture(params=SAMPLES)
def model(request: pytest.FixtureRequest) -> Model:
    return sample(request.param)


@cache
def sample(name: str) -> Model:
    return SAMPLES[name]()


WRONG = [
    pytest.param({"preference": -1}, id="preference -1", marks=pytest.mark.contract("VM-20")),
    pytest.param({"preference": 3}, id="preference 3", marks=pytest.mark.contract("VM-20")),
    pytest.param({"priority": -1}, id="priority -1", marks=pytest.mark.contract("VM-21")),
    pytest.param({"priority": 3}, id="priority 3", marks=pytest.mark.contract("VM-21")),
]


@pytest.mark.parametrize("arguments", WRONG)
def test_a_model_is_prepared_with_valid_arguments_and_refused_with_invalid_ones(
    session: DeviceSession, model: Model, arguments: dict[str, int]
) -> None:
    assert all(supported(session, model))
    for prepare in PREPARATIONS.values():
        events, error = prepare(session, model)
        assert error is None, str(error)
        assert events[-1].notified.prepared_model
        require_invalid(*prepare(session, model, **arguments), str(arguments))


@pytest.mark.parametrize("row", ROWS)
def test_a_mutated_model_is_invalid_in_every_call(session: DeviceSession, model: Model, row: str) -> None:
    for mutation in FAMILIES[row](model):
        refused(partial(supported, session, mutation.model), INVALID, what=mutation.what)
        for prepare in PREPARATIONS.values():
            require_invalid(*prepare(session, mutation.model), mutation.what)


@pytest.mark.contract("VM-09", "VM-16")
def test_other_types_and_fewer_inputs_are_valid_where_the_operation_takes_them(
    session: DeviceSession, model: Model
) -> None:
    for mutation in still_valid(model):
        try:
            answers = supported(session, mutation.model)
        except HalError as error:  # with the type, the scale or the dimensions may have to change too
            assert re.search("scale|dimensions", error.message), mutation.what
        else:
            assert len(answers) == len(model.main.operations), mutation.what


def test_there_are_samples_for_every_family() -> None:
    for row, family in FAMILIES.items():
        assert any(list(family(sample(name))) for name in SAMPLES), row
