"""Subgraphs that a device has made of operations take their place, on that device alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import (
    ErrorStatus,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandType,
    Operation,
    OperationType,
    OptimizationViews,
    Substitution,
)
from nnhal.validation import validate_model
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import PrepareOptions, Workload
from nnhal_service.partition.substitution import substituted
from tests.support.models import Recipe, run_on
from tests.support.picky import CPU, Bound, Picky, always, serving

F32 = OperandType.TENSOR_FLOAT32
ADD, MUL, RELU, TANH = OperationType.ADD, OperationType.MUL, OperationType.RELU, OperationType.TANH
VALUES = Operand(F32, (2,))
X = np.array([0.5, -0.25], np.float32)
FUSED_RELU = 1


def tanh_of_clamped_double() -> Model:
    """Return tanh(relu(x + x)) + x, in operations 0 to 3."""
    recipe = Recipe()
    x, (none,) = recipe.input(F32, (2,)), recipe.integers(0)
    double = recipe.operation(ADD, [x, x, none], VALUES)
    bent = recipe.operation(TANH, [recipe.operation(RELU, [double], VALUES)], VALUES)
    return recipe.build(recipe.operation(ADD, [bent, x, none], VALUES)).model


def clamped_double(scale: float = 2.0, dimensions: tuple[int, ...] = (2,)) -> Model:
    """Return relu(scale * x) as one MUL by a constant of its own."""
    recipe = Recipe()
    x, factor = recipe.input(F32, dimensions), recipe.constant(F32, [scale])
    return recipe.build(
        recipe.operation(MUL, [x, factor, *recipe.integers(FUSED_RELU)], Operand(F32, dimensions))
    ).model


def types_of(model: Model) -> list[int]:
    return [operation.type for operation in model.main.operations]


def computed(model: Model) -> list[float]:
    validate_model(model)
    (found,) = run_on(CpuRef(), ResolvedModel(model, inline_constants(model)), X)
    return [float(value) for value in found.view(np.float32)[:2]]


def test_the_subgraph_takes_the_place_of_its_operations() -> None:
    model = tanh_of_clamped_double()
    found = substituted(model, [Substitution((0, 1), "MUL", clamped_double())], "d")
    assert types_of(found) == [MUL, TANH, ADD]
    assert computed(found) == pytest.approx(computed(model), abs=1e-6)


def test_several_subgraphs_may_take_places_and_those_in_words_alone_take_none() -> None:
    model = tanh_of_clamped_double()
    recipe = Recipe()
    x, y = recipe.input(F32, (2,)), recipe.input(F32, (2,))
    none = recipe.integers(0)
    half = recipe.operation(MUL, [y, recipe.constant(F32, [0.5]), *none], VALUES)
    other = recipe.operation(MUL, [y, recipe.constant(F32, [0.5]), *none], VALUES)
    bent = recipe.operation(TANH, [recipe.operation(ADD, [half, other, *none], VALUES)], VALUES)
    last = recipe.build(recipe.operation(ADD, [bent, x, *none], VALUES)).model
    found = substituted(model, [Substitution((2, 3), "tail", last), Substitution((0, 1), "MUL", clamped_double())], "d")
    assert types_of(found)[0] == MUL and types_of(found)[-2:] == [TANH, ADD]
    assert computed(found) == pytest.approx(computed(model), abs=1e-6)
    assert substituted(model, [Substitution((0, 1), "fused")], "d") is model


def test_extensions_of_a_subgraph_get_prefixes_of_their_own() -> None:
    given = clamped_double()
    (operation,) = given.main.operations
    mine = Operation(0x30001, operation.inputs, operation.outputs)
    names = (ExtensionNameAndPrefix("acme.npu", 3),)
    given = replace(given, main=replace(given.main, operations=(mine,)), extension_name_to_prefix=names)
    model = replace(tanh_of_clamped_double(), extension_name_to_prefix=(ExtensionNameAndPrefix("acme.other", 3),))
    found = substituted(model, [Substitution((0, 1), "one", given)], "d")
    assert types_of(found) == [0x40001, TANH, ADD]
    assert ExtensionNameAndPrefix("acme.npu", 4) in found.extension_name_to_prefix


@pytest.mark.parametrize(
    ("operations", "given", "words"),
    [
        ((0, 1), lambda: tanh_of_clamped_double(), None),
        ((2, 3), lambda: clamped_double(), "it has 1 inputs and 1 outputs, expected 2 and 1"),
        (
            (0, 1),
            lambda: clamped_double(dimensions=(3,)),
            r"it has type TENSOR_FLOAT32 \[3\] for type TENSOR_FLOAT32 \[2\]",
        ),
        ((0, 3), lambda: clamped_double(), "expected 2 and 2"),
        ((0, 1), lambda: replace(clamped_double(), referenced=(clamped_double().main,)), "subgraphs of its own"),
    ],
)
def test_a_subgraph_that_does_not_fit_is_refused_with_the_device(
    operations: tuple[int, ...], given: Callable[[], Model], words: str | None
) -> None:
    substitution = Substitution(operations, "mine", given())
    if words is None:
        assert len(types_of(substituted(tanh_of_clamped_double(), [substitution], "d"))) == 6
        return
    with pytest.raises(HalError, match=f"device 'd' replaces .* by 'mine': .*{words}") as refused:
        substituted(tanh_of_clamped_double(), [substitution], "d")
    assert refused.value.status == ErrorStatus.GENERAL_FAILURE


def test_operations_between_which_others_lie_are_not_replaced() -> None:
    recipe = Recipe()
    x, y = recipe.input(F32, (2,)), recipe.input(F32, (2,))
    first = recipe.operation(ADD, [x, y, *recipe.integers(0)], VALUES)
    given = recipe.build(first, recipe.operation(TANH, [y], VALUES)).model
    model = tanh_of_clamped_double()
    with pytest.raises(HalError, match="device 'd' replaces operations that others both follow and precede"):
        substituted(model, [Substitution((0, 2), "torn", given)], "d")


class Fuser(Picky):
    """A device without an engine for RELU: it makes a MUL of an addition that is clamped."""

    def __init__(self) -> None:
        super().__init__("fuser", (ADD, RELU, TANH, MUL))
        self.prepared: list[list[int]] = []
        self.backend = replace(self.backend, optimize=self._optimize)

    def _optimize(self, model: ResolvedModel) -> OptimizationViews:
        others = range(2, len(model.model.main.operations))
        return OptimizationViews((Substitution((0, 1), "MUL", clamped_double()),), untouched=tuple(others))

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        self.prepared.append(types_of(model.model))
        return super().prepare(model, options)


def test_the_device_prepares_its_subgraph_and_the_fallback_device_the_operations(short_path: Path) -> None:
    fuser, cpu = Fuser(), Picky(CPU, ratio=1.0)
    model = tanh_of_clamped_double()
    with serving(short_path, fuser, cpu) as load:
        bound = Bound(load(model), [X], [2])
        bound.run()
        assert fuser.prepared == [[MUL, TANH, ADD]]
        expected = pytest.approx(computed(model), abs=1e-6)
        assert bound.outputs() == [expected]
        fuser.fails = always()
        assert bound.run().fell_back
        assert bound.outputs() == [expected]
        bound.close()
