"""Operations that a provider takes, as trying tells."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nnhal.errors import general_failure
from nnhal.operations.operand_types import F32
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import OperationType
from nnhal_devices.ort_ep.support import ProviderSupport
from tests.support.agreement import like
from tests.support.models import Recipe

ADD, TANH, RELU = OperationType.ADD, OperationType.TANH, OperationType.RELU
NO_ONNX = Unsupported("OP", "an operation", "one of ONNX's")


class Provider:
    """Takes models of the operations that it knows, and notes what it is asked to run."""

    def __init__(self, known: Collection[OperationType]) -> None:
        self.known = known
        self.asked: list[list[int]] = []

    def run(self, model: ResolvedModel) -> None:
        codes = [operation.type for operation in model.model.main.operations]
        self.asked.append(codes)
        if not set(codes) <= set(self.known):
            general_failure("no such kernel")


def lowered(model: ResolvedModel) -> Sequence[Support]:
    """All but RELU can become ONNX."""
    return [NO_ONNX if operation.type == RELU else SUPPORTED for operation in model.model.main.operations]


def chain(*codes: OperationType, length: int = 4) -> ResolvedModel:
    """A value, and what operations make of it one after the other."""
    recipe = Recipe()
    value = recipe.input(F32, (length,))
    for code in codes:
        others = [value, *recipe.integers(0)] if code == ADD else []
        value = recipe.operation(code, [value, *others], like(F32, (length,)))
    return recipe.build(value)


def test_operations_that_are_taken_together_are_asked_about_once() -> None:
    provider = Provider({ADD, TANH})
    support = ProviderSupport("npu", lowered, provider.run)
    assert support.of(chain(ADD, RELU, TANH)) == [SUPPORTED, NO_ONNX, SUPPORTED]
    assert provider.asked == [[ADD, TANH]]
    assert support.of(chain(ADD, RELU, TANH)) == [SUPPORTED, NO_ONNX, SUPPORTED]
    assert provider.asked == [[ADD, TANH]]


def test_operations_that_are_not_taken_together_are_asked_about_one_by_one() -> None:
    provider = Provider({ADD})
    support = ProviderSupport("npu", lowered, provider.run)
    refused = Unsupported("OP", "no such kernel", "what npu takes")
    assert support.of(chain(ADD, TANH, ADD)) == [SUPPORTED, refused, SUPPORTED]
    assert provider.asked == [[ADD, TANH, ADD], [ADD], [TANH]]


def test_other_dimensions_are_another_question() -> None:
    provider = Provider({ADD})
    support = ProviderSupport("npu", lowered, provider.run)
    assert support.of(chain(ADD)) == support.of(chain(ADD, length=8)) == [SUPPORTED]
    assert provider.asked == [[ADD], [ADD]]


def test_a_model_of_which_nothing_becomes_onnx_is_not_tried() -> None:
    provider = Provider({RELU})
    assert ProviderSupport("npu", lowered, provider.run).of(chain(RELU)) == [NO_ONNX]
    assert provider.asked == []
