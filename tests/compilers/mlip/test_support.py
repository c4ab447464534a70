from __future__ import annotations

import pytest

from nnhal.operations.operand_types import F16, F32
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import OperandType, OperationType
from nnhal_mlip.support import partition_model, supported_operations
from tests.support.agreement import single
from tests.support.mlip_hal import EACH_EXAMPLE, TYPES, MlipRecipe, is_taken, mlip_examples, refusal
from tests.support.npu import SAME, VALID


def convolved(recipe: MlipRecipe, image: int, channels: int, depth: int, activation: int = 0) -> int:
    inputs = [image, recipe.weights((channels, 3, 3, depth)), recipe.bias(channels)]
    return recipe.operation(OperationType.CONV_2D, [*inputs, *recipe.integers(SAME, 1, 1, activation)], recipe.like())


@pytest.mark.parametrize(("code", "name"), EACH_EXAMPLE)
def test_every_example_is_taken_and_leaves_nothing_to_the_host(code: OperandType, name: str) -> None:
    model = mlip_examples(code)[name]
    assert is_taken(model)
    assert not partition_model(model, public=False).partition.host


@pytest.mark.parametrize(
    ("model", "code", "got", "check"),
    [
        (
            single(OperationType.AVERAGE_POOL_2D, F16, [(9, 4, 4, 3)], [VALID, 1, 1, 2, 2, 0]),
            "SHAPE",
            "an operand of shape [9, 4, 4, 3], batch 9",
            "avg_pool2d.batch",
        ),
        (single(OperationType.MEAN, F16, [(1, 4, 4, 3)], [[3], 1]), "NO_IMPL", "axes [3] of rank 4", "mean.axis"),
        (single(OperationType.PAD_V2, F16, [(4,)], [[[1, 1]], 1.5]), "CONSTANT", "padding with 1.5", "pad.value"),
    ],
    ids=["batch", "axes", "pad"],
)
def test_a_refusal_names_the_check_of_the_flow(model: ResolvedModel, code: str, got: str, check: str) -> None:
    (answer,) = supported_operations(model)
    assert isinstance(answer, Unsupported)
    assert (answer.code, answer.got) == (code, got)
    assert answer.allowed.endswith(f" ({check})")


@pytest.mark.parametrize("name", ["DEPTHWISE_CONV_2D with a multiplier", "GROUPED_CONV_2D of two groups"])
def test_the_public_flow_has_no_groups_of_several_channels(name: str) -> None:
    (answer,) = supported_operations(mlip_examples(F32)[name], public=True)
    assert isinstance(answer, Unsupported)
    assert answer.code == "KERNEL"
    assert answer.allowed.endswith("(conv2d.groups)")


def test_a_float32_model_is_taken_if_it_is_relaxed() -> None:
    assert is_taken(mlip_examples(F32)["RELU"])
    reason = refusal(single(OperationType.RELU, F32, [(1, 4)]))
    assert reason.code == "DTYPE"


def test_operations_that_the_accelerator_does_not_have() -> None:
    reason = refusal(single(OperationType.L2_NORMALIZATION, F16, [(1, 4, 4, 2)], []))
    assert (reason.code, reason.got) == ("OP", "L2_NORMALIZATION")


def test_a_softmax_whose_result_leaves_the_model_stays_with_others_and_can_be_prepared_all_the_same() -> None:
    model = single(OperationType.SOFTMAX, F16, [(1, 4)], [1.0])
    reason = refusal(model)
    assert (reason.code, reason.got) == ("REVERTED", "a softmax whose result leaves the model")
    assert len(partition_model(model, public=False).partition.subgraphs) == 1


def test_a_constant_matrix_of_a_product_is_asked_for_as_a_dense_layer() -> None:
    recipe = MlipRecipe(F16)
    flags = [recipe.constant(OperandType.BOOL, False) for _ in range(2)]
    inputs = [recipe.tensor((2, 3, 4)), recipe.values((2, 4, 5)), *flags]
    reason = refusal(recipe.finish(recipe.operation(OperationType.BATCH_MATMUL, inputs, recipe.like())))
    assert reason.code == "CONSTANT"
    assert "dense layer" in reason.hint


def test_what_is_between_operations_of_others_is_taken_all_the_same() -> None:
    recipe = MlipRecipe(F16)
    image = recipe.tensor((1, 6, 5, 4))
    before = recipe.operation(OperationType.L2_NORMALIZATION, [image], recipe.like())
    after = convolved(recipe, before, 3, 4)
    last = recipe.operation(OperationType.L2_NORMALIZATION, [after], recipe.like())
    answers = supported_operations(recipe.finish(last))
    assert [answer == SUPPORTED for answer in answers] == [False, True, False]


def test_the_public_flow_takes_a_relaxed_convolution_and_its_relu() -> None:
    recipe = MlipRecipe(F32)
    features = convolved(recipe, recipe.tensor((1, 6, 5, 4)), 3, 4, activation=1)
    assert supported_operations(recipe.finish(features), public=True) == [SUPPORTED]


@pytest.mark.parametrize("name", ["CONV_2D SAME", "CONV_2D NCHW"])
def test_beyond_the_public_flow_are_float16_and_8_bits(name: str) -> None:
    for code in TYPES:
        answers = supported_operations(mlip_examples(code)[name], public=True)
        assert (answers == [SUPPORTED]) == (code == F32)


def test_the_public_flow_refuses_relu6_with_the_check() -> None:
    (answer,) = supported_operations(mlip_examples(F32)["CONV_2D with RELU6"], public=True)
    assert isinstance(answer, Unsupported)
    assert (answer.code, answer.got) == ("ACTIVATION", "clip")


def test_the_public_flow_gives_up_a_pool_alone_with_the_reason() -> None:
    (answer,) = supported_operations(mlip_examples(F32)["MAX_POOL_2D"], public=True)
    assert isinstance(answer, Unsupported)
    assert answer.code == "REVERTED"
    assert "goes back to the host" in answer.got
