from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.codec import model_from_wire, model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model, OperationType
from nnhal_service.native.hal_model import HalModel, content_of, hal_model_from_wire, import_hal_model
from tests.support.additions import addition_model, additions_in_a_cycle
from tests.support.sample_models import SAMPLES, in_pool


class Descriptors:
    """Descriptors by number, as a session has them."""

    def __init__(self) -> None:
        self._known: list[Descriptor] = []

    def issue(self, descriptor: Descriptor) -> int:
        self._known.append(descriptor)
        return len(self._known) - 1

    def resolve(self, number: int) -> Descriptor:
        return self._known[number]


def received(model: Model) -> HalModel:
    """Encode a model and decode it as the framework does."""
    descriptors = Descriptors()
    return hal_model_from_wire(model_to_wire(model, descriptors.issue), descriptors.resolve)


def listed(model: Model, *order: int) -> Model:
    operations = tuple(model.main.operations[number] for number in order)
    return replace(model, main=replace(model.main, operations=operations))


@pytest.mark.parametrize("name", SAMPLES)
def test_models_arrive_and_get_names(name: str) -> None:
    model = SAMPLES[name]()
    imported = import_hal_model(received(model))
    assert [tensor.name for tensor in imported.inputs] == [f"input{n}" for n in range(len(model.main.input_indexes))]
    assert [tensor.name for tensor in imported.outputs] == [f"output{n}" for n in range(len(model.main.output_indexes))]
    assert imported.operation_nodes == tuple((f"operation{n}",) for n in range(len(model.main.operations)))
    assert len(imported.operand_names) == len(model.main.operands)


@pytest.mark.contract("IC-04")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_operations_are_put_in_order_and_known_by_their_own_indexes(order: tuple[int, ...]) -> None:
    model = addition_model(operations=3)
    given = received(listed(model, *order))
    assert given.model.main.operations == model.main.operations
    assert given.order == tuple(order.index(number) for number in range(3))
    assert import_hal_model(given).operation_nodes == tuple((f"operation{order.index(n)}",) for n in range(3))


def test_operations_that_are_in_order_stay_where_they_are() -> None:
    model = SAMPLES["recurrent, in a pool"]()
    assert received(model).order == tuple(range(len(model.main.operations)))


@pytest.mark.contract("UD-02")
def test_what_is_not_valid_is_refused() -> None:
    constant = replace(addition_model().main.operands[-2], dimensions=(1,))
    model = addition_model()
    operands = (*model.main.operands[:-2], constant, model.main.operands[-1])
    assert model.main.operations[0].type == OperationType.ADD
    for bad in (replace(model, main=replace(model.main, operands=operands)), additions_in_a_cycle()):
        with pytest.raises(HalError) as caught:
            received(bad)
        assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_the_content_tells_models_and_what_lies_in_their_pools_apart() -> None:
    models = [
        addition_model(),
        addition_model(17),
        SAMPLES["depthwise convolution, in a pool"](),
        in_pool(replace(SAMPLES["convolution"]())),
    ]
    contents = []
    for model in (*models, *models):
        descriptors = Descriptors()
        message = model_to_wire(model, descriptors.issue)
        assert model_from_wire(message, descriptors.resolve) == model
        contents.append(content_of(message, hal_model_from_wire(message, descriptors.resolve)))
    assert contents[:4] == contents[4:]
    assert len(set(contents)) == len(models)
