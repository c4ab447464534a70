"""Damaged models: a device names the place of the damage, and never crashes, hangs or leaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ChannelQuant, Model, Operand, OperandType, Operation, OperationType, Subgraph
from tests.support.models import Recipe
from tests.support.processes import own_device
from tests.support.refusals import INVALID, refusal
from tests.support.searching import search

_DRIVERS = ("cpu_ref", "cpu_acc")
_NUMBERS = st.one_of(
    st.integers(-3, 20), st.sampled_from([-(2**31), 2**31 - 1, 255, 256, -128, 65535, 0x10000, 0x7AAABBBB])
)
_SCALES = st.sampled_from([0.0, -1.0, 1.0, 0.5, 1e30, float("inf"), float("nan")])


def convolution() -> Model:
    """Return a quantised convolution with one scale for each channel, and SOFTMAX of its result."""
    recipe = Recipe()
    image = recipe.input(OperandType.TENSOR_QUANT8_ASYMM, (1, 4, 4, 2), 0.5, 128)
    channels = ChannelQuant((0.25, 0.5, 0.125), 0)
    filters = recipe.constant(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, np.ones((3, 2, 2, 2)), channels=channels)
    bias = recipe.constant(OperandType.TENSOR_INT32, np.arange(3))
    result = recipe.operation(
        OperationType.CONV_2D,
        [image, filters, bias, *recipe.integers(1, 1, 1, 0)],
        Operand(OperandType.TENSOR_QUANT8_ASYMM, (1, 4, 4, 3), 1.0, 0),
    )
    beta = recipe.constant(OperandType.FLOAT32, 1.0)
    top = recipe.operation(
        OperationType.SOFTMAX, [result, beta], Operand(OperandType.TENSOR_QUANT8_ASYMM, (1, 4, 4, 3), 1 / 256, 0)
    )
    return recipe.build(top).model


def reshaped() -> Model:
    """Return a CONCATENATION, a RESHAPE and a FULLY_CONNECTED."""
    recipe = Recipe()
    values = recipe.input(OperandType.TENSOR_FLOAT32, (2, 3))
    joined = recipe.operation(
        OperationType.CONCATENATION,
        [values, values, *recipe.integers(1)],
        Operand(OperandType.TENSOR_FLOAT32, (2, 6)),
    )
    shape = recipe.constant(OperandType.TENSOR_INT32, [3, -1])
    flat = recipe.operation(OperationType.RESHAPE, [joined, shape], Operand(OperandType.TENSOR_FLOAT32, (3, 4)))
    weights = recipe.constant(OperandType.TENSOR_FLOAT32, np.ones((5, 4)))
    bias = recipe.constant(OperandType.TENSOR_FLOAT32, np.zeros(5))
    result = recipe.operation(
        OperationType.FULLY_CONNECTED,
        [flat, weights, bias, *recipe.integers(0)],
        Operand(OperandType.TENSOR_FLOAT32, (3, 5)),
    )
    return recipe.build(result).model


_MODELS = (convolution(), reshaped())


def _damaged(value: Any, draw: st.DrawFn) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return draw(_NUMBERS)
        case float():
            return draw(_SCALES)
        case bytes():
            return value[: draw(st.integers(0, len(value)))]
        case tuple():
            return _damaged_list(value, draw)
        case Subgraph() | Operand() | Operation() | Model() | ChannelQuant():
            name = draw(st.sampled_from([field.name for field in fields(value)]))
            return replace(value, **{name: _damaged(getattr(value, name), draw)})
        case None:
            return draw(st.sampled_from([b"extra", ChannelQuant((1.0,), 0)]))
        case _:
            name = draw(st.sampled_from([field.name for field in fields(value)]))
            return replace(value, **{name: draw(_NUMBERS)})


def _damaged_list(items: tuple[Any, ...], draw: st.DrawFn) -> tuple[Any, ...]:
    if not items:
        return items
    index = draw(st.integers(0, len(items) - 1))
    match draw(st.sampled_from(["change", "change", "change", "remove", "repeat"])):
        case "remove":
            return items[:index] + items[index + 1 :]
        case "repeat":
            return (*items, items[index])
        case _:
            return (*items[:index], _damaged(items[index], draw), *items[index + 1 :])


@st.composite
def damaged_models(draw: st.DrawFn) -> Model:
    """Return a valid model with one to three things damaged."""
    model = draw(st.sampled_from(_MODELS))
    for _ in range(draw(st.integers(1, 3))):
        model = _damaged(model, draw)
    return model


@pytest.fixture(scope="module", params=_DRIVERS)
def device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    with (
        own_device(request.param) as (_, endpoint),
        RemoteDevice(endpoint, "damage") as remote,
    ):
        yield remote


@pytest.mark.parametrize("model", _MODELS)
def test_the_models_are_valid_before_they_are_damaged(device: RemoteDevice, model: Model) -> None:
    assert all(device.supported_operations(model))
    device.prepare_model(model).release()


@pytest.mark.contract("PM-03")
@pytest.mark.parametrize("length", [1, 3, 1 << 20])
def test_an_output_with_other_dimensions_than_its_operation_makes_is_invalid(device: RemoteDevice, length: int) -> None:
    recipe = Recipe()
    given = recipe.input(OperandType.TENSOR_FLOAT32, (2,))
    result = Operand(OperandType.TENSOR_FLOAT32, (length,))
    model = recipe.build(recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], result)).model
    words = rf"operation 0 \(ADD\): output 0 has dimensions \[2\], the model says \[{length}\]"
    for ask in (device.supported_operations, device.assess_model, device.prepare_model):
        refusal(lambda ask=ask: ask(model), INVALID, words)  # type: ignore[misc]


@search(60)
@given(model=damaged_models())
def test_a_damaged_model_is_either_prepared_or_refused_with_a_reason(device: RemoteDevice, model: Model) -> None:
    before = device.usage()
    try:
        supported = device.supported_operations(model)
    except HalError as error:
        assert error.message
        with pytest.raises(HalError) as caught:
            device.prepare_model(model)
        assert caught.value.status == error.status
        assert caught.value.message == error.message
    except (ValueError, TypeError, OverflowError):
        return  # the client cannot encode a number that exceeds its field
    else:
        try:
            prepared = device.prepare_model(model)
        except HalError as error:
            assert error.message
            assert not all(supported), error
        else:
            prepared.release()
    after = device.usage()
    assert (after.prepared_models, after.mappings, after.descriptors) == (
        before.prepared_models,
        before.mappings,
        before.descriptors,
    )
