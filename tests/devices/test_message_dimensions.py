"""Drivers decline a RUN whose operands have other dimensions than its message takes or makes."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from nnhal.support import Supported, Unsupported
from nnhal.types import Model
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import Driver, DriverOptions
from nnhal_devices.registry import registry
from nnhal_frontends import import_model
from tests.support.mutations import with_main, with_operand
from tests.support.onnx_models import resolved

INPUT, OUTPUT = 0, 1


@pytest.fixture
def model() -> Model:
    """A network of one operator that the HAL does not have."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Sinh", ["x"], ["y"])], "graph", [x], [y])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return import_model(network.SerializeToString()).model


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return registry().create(request.param, DriverOptions())


@pytest.mark.parametrize("index", [INPUT, OUTPUT])
@pytest.mark.parametrize("dimensions", [(2, 3), (0, 3), (2, 0), ()])
def test_dimensions_that_the_message_has_or_that_are_unknown_are_supported(
    driver: Driver, model: Model, index: int, dimensions: Dimensions
) -> None:
    (answer,) = driver.supported_operations(resolved(with_operand(model, index, dimensions=dimensions)))
    assert isinstance(answer, Supported)


@pytest.mark.parametrize(("index", "what"), [(INPUT, "input 0"), (OUTPUT, "output 0")])
@pytest.mark.parametrize("dimensions", [(2, 4), (3, 2), (6,), (1, 2, 3)])
def test_other_dimensions_are_declined_with_both(
    driver: Driver, model: Model, index: int, what: str, dimensions: Dimensions
) -> None:
    (answer,) = driver.supported_operations(resolved(with_operand(model, index, dimensions=dimensions)))
    assert isinstance(answer, Unsupported)
    assert answer.code == "SHAPE"
    assert answer.got == f"{what} of {list(dimensions)}, for which the message has [2, 3]"


def test_another_number_of_operands_is_declined(driver: Driver, model: Model) -> None:
    (operation,) = model.main.operations
    twice = type(operation)(operation.type, (*operation.inputs, INPUT), operation.outputs)
    (answer,) = driver.supported_operations(resolved(with_main(model, operations=(twice,))))
    assert isinstance(answer, Unsupported)
    assert "2 inputs and 1 outputs" in answer.got
