"""The families of invalid models: small models of every kind, with one mutation at every place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import Model
from nnhal.v1 import device_pb2
from tests.support.model_mutations import FAMILIES, still_valid
from tests.support.preparations import (
    Arguments,
    assert_notified_and_thrown,
    prepare_model,
    prepare_model_with_config,
)
from tests.support.refusals import INVALID
from tests.support.sample_models import SAMPLES
from tests.support.wire import WireDevice

ROWS = [pytest.param(row, marks=pytest.mark.contract(row)) for row in FAMILIES]
WAYS_TO_PREPARE = (prepare_model, prepare_model_with_config)


@pytest.fixture(scope="module")
def session(cpu_ref: Endpoint) -> Iterator[WireDevice]:
    """Open a session that the module's tests share."""
    with WireDevice(cpu_ref) as wire:
        yield wire


@pytest.fixture(params=SAMPLES)
def model(request: pytest.FixtureRequest) -> Model:
    return sample(request.param)


@cache
def sample(name: str) -> Model:
    return SAMPLES[name]()


def supported(wire: WireDevice, model: Model) -> list[bool]:
    message = device_pb2.GetSupportedOperationsRequest(model=wire.model(model))
    return list(wire.call(wire.device.GetSupportedOperations, message).supported)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(Arguments(preference=-1), id="preference -1", marks=pytest.mark.contract("VM-20")),
        pytest.param(Arguments(preference=3), id="preference 3", marks=pytest.mark.contract("VM-20")),
        pytest.param(Arguments(priority=-1), id="priority -1", marks=pytest.mark.contract("VM-21")),
        pytest.param(Arguments(priority=3), id="priority 3", marks=pytest.mark.contract("VM-21")),
    ],
)
def test_a_model_is_prepared_with_valid_arguments_and_refused_with_invalid_ones(
    session: WireDevice, model: Model, arguments: Arguments
) -> None:
    assert all(supported(session, model))
    for prepare in WAYS_TO_PREPARE:
        events, error = prepare(session, model, Arguments())
        assert error is None, str(error)
        assert events[-1].notified.prepared_model
        assert_notified_and_thrown(prepare(session, model, arguments), INVALID, "expected 0 to 2")


@pytest.mark.parametrize("row", ROWS)
def test_a_mutated_model_is_invalid_in_every_call(session: WireDevice, model: Model, row: str) -> None:
    for mutation in FAMILIES[row](model):
        try:
            with pytest.raises(HalError) as refusal:
                supported(session, mutation.model)
            assert refusal.value.status == INVALID
            for prepare in WAYS_TO_PREPARE:
                assert_notified_and_thrown(
                    prepare(session, mutation.model, Arguments()), INVALID, refusal.value.message
                )
        except BaseException as error:
            error.add_note(mutation.what)
            raise


@pytest.mark.contract("VM-09", "VM-16")
def test_other_types_and_fewer_inputs_are_valid_where_the_operation_takes_them(
    session: WireDevice, model: Model
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
