"""Models with their channels last compute the same as with channels first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.layouts import channels_last
from nnhal.operations.operand_types import B8, F32, I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from tests.support.channels_first import ImageRecipe, assert_equal_in_value, count
from tests.support.onnx_models import random, resolved
from tests.support.sample_models import in_pool

Add = Callable[[ImageRecipe, int], int]
CODES = pytest.mark.parametrize("code", [F32, Q8AS], ids=["float32", "quant8"])


def converted(model: ResolvedModel) -> ResolvedModel:
    """Convert a model; check that it computes the same, and that operations stand for those that they come from."""
    result = channels_last(model)
    main, before = result.model.model.main, model.model.main
    assert len(result.origins) == len(main.operations)
    for operation, origin in zip(main.operations, result.origins, strict=True):
        if origin is None:
            assert operation.type in (OperationType.TRANSPOSE, OperationType.RESHAPE)
        else:
            assert before.operations[origin].type == operation.type
    assert [main.operands[i].dimensions for i in main.input_indexes] == [
        before.operands[i].dimensions for i in before.input_indexes
    ]
    assert_equal_in_value(model, result.model)
    return result.model


@CODES
def test_a_chain_has_one_transposition_at_each_end(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(2, 3, 8, 6)
    first = recipe.convolution(x, 3, 4)
    relu = recipe.apply(OperationType.RELU6, first)
    pooled = recipe.apply(OperationType.MAX_POOL_2D, relu, [1, 2, 2, 2, 2, 0], recipe.flag(True))
    last = recipe.convolution(pooled, 4, 5)
    assert count(converted(recipe.build(last))) == 2


def _explicit_convolution(recipe: ImageRecipe, x: int) -> int:
    filters = recipe.filters(5, 3, 2, 4)
    return recipe.apply(OperationType.CONV_2D, x, *filters, [1, 0, 2, 1, 2, 1, 0], recipe.flag(True), [1, 2])


def _depthwise(recipe: ImageRecipe, x: int) -> int:
    filters = recipe.depthwise_filters(1, 3, 2, 8)
    return recipe.apply(OperationType.DEPTHWISE_CONV_2D, x, *filters, [1, 2, 1, 2, 1], recipe.flag(True), [1, 1])


def _grouped(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(
        OperationType.GROUPED_CONV_2D, x, *recipe.filters(6, 3, 2, 2), [2, 1, 1, 2, 1], recipe.flag(True)
    )


def _transposed_to_a_size(recipe: ImageRecipe, x: int) -> int:
    filters, size = recipe.filters(3, 2, 3, 4), recipe.vector(2, 3, 16, 12)
    return recipe.apply(OperationType.TRANSPOSE_CONV_2D, x, *filters, size, [1, 2, 2, 0], recipe.flag(True))


def _transposed(recipe: ImageRecipe, x: int) -> int:
    filters = recipe.filters(3, 2, 3, 4)
    return recipe.apply(OperationType.TRANSPOSE_CONV_2D, x, *filters, [1, 0, 0, 1, 2, 2, 0], recipe.flag(True))


def _average(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.AVERAGE_POOL_2D, x, [1, 0, 0, 1, 2, 1, 2, 3, 0], recipe.flag(True))


def _largest(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.MAX_POOL_2D, x, [2, 1, 2, 3, 2, 3], recipe.flag(True))


def _bilinear(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.RESIZE_BILINEAR, x, [5, 9], recipe.flag(True), recipe.flag(True))


def _nearest(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.RESIZE_NEAREST_NEIGHBOR, x, [5, 9], recipe.flag(True))


def _depth_to_space(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.DEPTH_TO_SPACE, x, [2], recipe.flag(True))


def _space_to_depth(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.SPACE_TO_DEPTH, x, [2], recipe.flag(True))


def _batch_to_space(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.BATCH_TO_SPACE_ND, x, recipe.vector(2, 1), recipe.flag(True))


def _space_to_batch(recipe: ImageRecipe, x: int) -> int:
    paddings = recipe.matrix([[1, 1], [0, 3]])
    return recipe.apply(OperationType.SPACE_TO_BATCH_ND, x, recipe.vector(2, 3), paddings, recipe.flag(True))


@CODES
@pytest.mark.parametrize(
    "add",
    [
        _explicit_convolution,
        _depthwise,
        _grouped,
        _transposed_to_a_size,
        _transposed,
        _average,
        _largest,
        _bilinear,
        _nearest,
        _depth_to_space,
        _space_to_depth,
        _batch_to_space,
        _space_to_batch,
    ],
)
def test_operations_on_images(add: Add, code: OperandType) -> None:
    recipe = ImageRecipe(code)
    result = converted(recipe.build(add(recipe, recipe.images(2, 4, 8, 6))))
    assert count(result) == 2
    assert len(result.model.main.operations) == 3


def test_instance_normalization_and_l2_pools() -> None:
    recipe = ImageRecipe()
    x = recipe.images(2, 4, 8, 6)
    numbers = [recipe.real(each) for each in (1.5, 0.25, 1e-3)]
    normal = recipe.apply(OperationType.INSTANCE_NORMALIZATION, x, *numbers, recipe.flag(True))
    pool = recipe.apply(OperationType.L2_POOL_2D, normal, [1, 2, 2, 2, 2, 0], recipe.flag(True))
    assert count(converted(recipe.build(pool))) == 2


@CODES
@pytest.mark.parametrize("inputs", [1, 2], ids=["roi_pooling", "roi_align"])
def test_regions_are_cut_out_of_images(code: OperandType, inputs: int) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(1, 3, 8, 8)
    boxes = [[0.0, 0.0, 4.0, 6.0], [1.0, 2.0, 7.0, 8.0]]
    if recipe.quantised:
        kind = OperandType.TENSOR_QUANT16_ASYMM
        rois = recipe.constant(kind, [[8 * each for each in box] for box in boxes], 0.125)
    else:
        rois = recipe.constant(F32, boxes)
    operation = OperationType.ROI_POOLING if inputs == 1 else OperationType.ROI_ALIGN
    samples = [] if inputs == 1 else [[2, 2]]
    sizes = [recipe.real(1.0), recipe.real(1.0)]
    cut = recipe.apply(operation, x, rois, recipe.vector(0, 0), [2, 3], *sizes, *samples, recipe.flag(True))
    assert count(converted(recipe.build(cut))) == 2


def _activation(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.RELU1, x)


def _sum_with_constant(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.ADD, x, recipe.tensor(4, 1, 1), [0])


def _sum_with_row(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.SUB, recipe.tensor(6), x, [1])


def _sum_with_number(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.ADD, x, recipe.tensor(1), [0])


def _alpha(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.PRELU, x, recipe.tensor(1, 4, 1, 1))


def _joined(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.CONCATENATION, x, recipe.tensor(2, 3, 8, 6), x, [1])


def _padded(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.PAD, x, recipe.matrix([[0, 1], [1, 2], [3, 0], [0, 2]]))


def _mirrored(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.MIRROR_PAD, x, recipe.matrix([[0, 1], [1, 2], [3, 0], [0, 2]]), [0])


def _kept_mean(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.MEAN, x, recipe.vector(-1, 2), [1])


def _kept_maximum(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.REDUCE_MAX, x, recipe.vector(1), recipe.flag(True))


def _mean_of_rows(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.MEAN, x, recipe.vector(2), [0])


def _strided(recipe: ImageRecipe, x: int) -> int:
    vectors = [recipe.vector(*each) for each in ((0, -1, 7, 1), (2, -5, 0, 2), (1, -2, -3, 1))]
    return recipe.apply(OperationType.STRIDED_SLICE, x, *vectors, [0, 4, 0])


def _shrunk(recipe: ImageRecipe, x: int) -> int:
    vectors = [recipe.vector(*each) for each in ((0, 0, 3, 1), (2, 4, 4, 6), (1, 1, 1, 2))]
    return recipe.apply(OperationType.STRIDED_SLICE, x, *vectors, [1, 0, 4])


def _sliced(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.SLICE, x, recipe.vector(0, 1, 2, 3), recipe.vector(-1, 2, 3, 1))


def _gathered(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.GATHER, x, [1], recipe.vector(3, 0, 0))


def _reversed(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.REVERSE, x, recipe.vector(1))


def _shuffled(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.CHANNEL_SHUFFLE, x, [2, -3])


def _tiled(recipe: ImageRecipe, x: int) -> int:
    return recipe.apply(OperationType.TILE, x, recipe.vector(1, 2, 1, 3))


FOLLOWERS = [
    _activation,
    _sum_with_constant,
    _sum_with_row,
    _sum_with_number,
    _alpha,
    _joined,
    _padded,
    _mirrored,
    _kept_mean,
    _kept_maximum,
    _mean_of_rows,
    _strided,
    _shrunk,
    _sliced,
    _gathered,
    _reversed,
    _shuffled,
    _tiled,
]


@CODES
@pytest.mark.parametrize("add", FOLLOWERS)
def test_operations_follow_the_layout_that_arrives(add: Add, code: OperandType) -> None:
    recipe = ImageRecipe(code)
    result = converted(recipe.build(add(recipe, recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4))))
    assert count(result) == 2
    assert len(result.model.main.operations) == 4


@pytest.mark.parametrize("axis", [None, 1, -1, 2])
def test_softmax_normalises_the_axis_that_it_did(axis: int | None) -> None:
    recipe = ImageRecipe()
    given = [] if axis is None else [[axis]]
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    soft = recipe.apply(OperationType.SOFTMAX, images, recipe.real(1.0), *given)
    assert count(converted(recipe.build(soft))) == 2


@CODES
def test_a_mean_over_height_and_width_leaves_nothing_to_transpose(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    mean = recipe.apply(OperationType.MEAN, images, recipe.vector(2, 3), [0])
    assert count(converted(recipe.build(mean))) == 1


@CODES
def test_a_reshape_of_one_pixel_reads_it_as_it_lies(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    mean = recipe.apply(OperationType.MEAN, images, recipe.vector(2, 3), [1])
    flat = recipe.apply(OperationType.RESHAPE, mean, recipe.vector(2, -1))
    assert count(converted(recipe.build(flat))) == 1


def test_a_squeeze_names_the_same_axes() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(2, 3, 8, 1), 3, 4)
    some = recipe.apply(OperationType.SQUEEZE, images, recipe.vector(3))
    every = recipe.apply(OperationType.SQUEEZE, images, recipe.omitted(OperandType.TENSOR_INT32))
    assert count(converted(recipe.build(some, every))) == 3


def test_indices_of_maxima_are_in_the_models_order() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    best = recipe.apply(OperationType.ARGMAX, images, [1], result=recipe.like(code=I32))
    rows = recipe.apply(OperationType.ARGMAX, images, [2], result=recipe.like(code=I32))
    converted(recipe.build(best, rows))


def test_masks_keep_the_models_order_since_nothing_transposes_them() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    mask = recipe.apply(OperationType.GREATER, images, recipe.tensor(1), result=recipe.like(code=B8))
    chosen = recipe.apply(OperationType.SELECT, mask, images, recipe.tensor(2, 4, 8, 6))
    converted(recipe.build(chosen, mask))


@CODES
def test_readers_share_a_transposition(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(2, 3, 8, 6)
    one, other = recipe.convolution(x, 3, 4), recipe.convolution(x, 3, 4, kernel=1)
    both = recipe.apply(OperationType.ADD, one, other, [0])
    flat = recipe.apply(OperationType.RESHAPE, both, recipe.vector(2, -1))
    assert count(converted(recipe.build(flat, both))) == 2


@CODES
def test_the_left_operand_may_be_an_input(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(2, 4, 8, 6)
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    assert count(converted(recipe.build(recipe.apply(OperationType.ADD, x, images, [0])))) == 3


@CODES
def test_an_operand_of_lower_rank_gets_the_other_ones_rank(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(4, 1, 6)
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    result = converted(recipe.build(recipe.apply(OperationType.ADD, x, images, [0])))
    assert (count(result), count(result, OperationType.RESHAPE)) == (3, 1)


def test_what_comes_before_the_first_convolution_stays_as_it_is() -> None:
    recipe = ImageRecipe()
    x = recipe.apply(OperationType.MUL, recipe.images(2, 3, 8, 6), recipe.tensor(3, 1, 1), [0])
    result = converted(recipe.build(recipe.convolution(x, 3, 4)))
    assert [operation.type for operation in result.model.main.operations] == [
        OperationType.MUL,
        OperationType.TRANSPOSE,
        OperationType.CONV_2D,
        OperationType.TRANSPOSE,
    ]


def _to(recipe: ImageRecipe, x: int, *axes: int) -> int:
    return recipe.apply(OperationType.TRANSPOSE, x, recipe.vector(*axes))


@CODES
def test_transpositions_of_the_model_cancel(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(_to(recipe, recipe.images(2, 8, 6, 3), 0, 3, 1, 2), 3, 4)
    result = converted(recipe.build(_to(recipe, images, 0, 2, 3, 1)))
    assert [operation.type for operation in result.model.main.operations] == [OperationType.CONV_2D]


@CODES
def test_a_transposition_sinks_below_a_chain_of_operations(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = _to(recipe, recipe.images(2, 8, 6, 3), 0, 3, 1, 2)
    padded = recipe.apply(OperationType.PAD, x, recipe.matrix([[0, 0], [0, 0], [1, 1], [1, 2]]))
    result = converted(recipe.build(recipe.convolution(padded, 3, 4)))
    assert count(result) == 1


@CODES
def test_heads_that_are_transposed_and_flattened(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    heads = [recipe.convolution(x, 4, channels) for channels in (6, 9)]
    rows = [
        recipe.apply(OperationType.RESHAPE, _to(recipe, head, 0, 2, 3, 1), recipe.vector(2, -1, 3)) for head in heads
    ]
    joined = recipe.apply(OperationType.CONCATENATION, *rows, [1])
    assert count(converted(recipe.build(joined))) == 1


@CODES
def test_one_stored_value_for_several_outputs(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = recipe.images(2, 3, 8, 6)
    images = recipe.convolution(x, 3, 4)
    outputs = [_to(recipe, images, 0, 2, 3, 1), _to(recipe, images, 0, 2, 3, 1), images]
    there = _to(recipe, x, 0, 2, 3, 1)
    converted(recipe.build(*outputs, there, _to(recipe, there, 0, 3, 1, 2), _to(recipe, images, 3, 1, 2, 0)))


def test_a_split_has_parts_in_its_order() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(2, 3, 8, 6), 3, 4)
    parts = recipe.operation(
        OperationType.SPLIT, [images, *recipe.integers(1, 2)], *[recipe.like(2, 2, 8, 6) for _ in range(2)]
    )
    assert count(converted(recipe.build(recipe.apply(OperationType.MUL, parts, parts + 1, [0])))) == 2


def test_a_batch_of_unknown_size() -> None:
    recipe = ImageRecipe()
    x = recipe.images(0, 3, 8, 6)
    images = recipe.convolution(x, 3, 4)
    model = recipe.build(recipe.apply(OperationType.ADD, images, recipe.tensor(4, 1, 1), [0]))
    result = channels_last(model).model
    for batch in (1, 3):
        assert_equal_in_value(model, result, random(batch, 3, 8, 6))


def test_a_layout_that_a_request_gives_is_left_to_it() -> None:
    recipe = ImageRecipe()
    x, layout = recipe.images(1, 4, 8, 4), recipe.input(OperandType.BOOL)
    pool = recipe.apply(OperationType.MAX_POOL_2D, x, [1, 1, 1, 2, 2, 0], layout)
    images = recipe.convolution(pool, 4, 4)
    model = recipe.build(images)
    result = channels_last(model).model
    assert count(result) == 2


@CODES
def test_heatmaps_give_the_same_keypoints(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    maps = recipe.convolution(recipe.images(1, 3, 8, 8), 3, 4)
    kind, scale = (OperandType.TENSOR_QUANT16_ASYMM, 0.125) if recipe.quantised else (F32, 0.0)
    boxes = recipe.constant(kind, [[0, 8, 64, 72]], scale)
    points = [recipe.like(1, 4), Operand(kind, (1, 4, 2), scale)]
    best = recipe.operation(OperationType.HEATMAP_MAX_KEYPOINT, [maps, boxes, recipe.flag(True)], *points)
    assert count(converted(recipe.build(best, best + 1))) == 1


def test_proposals_are_the_same() -> None:
    recipe = ImageRecipe()
    x = recipe.images(1, 3, 4, 4)
    scores, deltas = recipe.convolution(x, 3, 2, 1), recipe.convolution(x, 3, 8, 1)
    anchors, size = recipe.constant(F32, [[0, 0, 8, 8], [-4, -2, 4, 10]]), recipe.constant(F32, [[32, 32]])
    numbers = [recipe.real(4.0), recipe.real(4.0), *recipe.integers(-1, 5), recipe.real(0.5), recipe.real(1.0)]
    proposals = recipe.operation(
        OperationType.GENERATE_PROPOSALS,
        [scores, deltas, anchors, size, *numbers, recipe.flag(True)],
        Operand(F32, (0,)),
        Operand(F32, (0, 4)),
        Operand(I32, (0,)),
    )
    assert count(converted(recipe.build(proposals, proposals + 1, proposals + 2))) == 1


def test_parameters_that_a_request_gives_keep_the_models_order() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(1, 3, 4, 4), 3, 2)
    paddings = recipe.input(I32, (4, 2))
    model = recipe.build(recipe.apply(OperationType.PAD, images, paddings))
    values = random(1, 3, 4, 4), np.array([[0, 0], [1, 2], [0, 1], [3, 0]], np.int32)
    assert_equal_in_value(model, channels_last(model).model, *values)


def test_names_go_with_the_values() -> None:
    recipe = ImageRecipe()
    x = recipe.images(1, 3, 4, 4)
    model = recipe.build(recipe.convolution(x, 3, 2))
    named = ResolvedModel(model.model, model.constants, {x: "image", model.model.main.output_indexes[0]: "scores"})
    result = channels_last(named).model
    assert [result.names[operation.outputs[0]] for operation in result.model.main.operations] == [
        "image",
        "scores",
        "scores",
    ]


def test_constants_may_lie_in_pools() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(1, 3, 4, 4), 3, 2)
    model = recipe.build(recipe.apply(OperationType.MUL, images, recipe.tensor(2, 4, 4), [0]), relaxed=True)
    pooled = resolved(in_pool(model.model))
    result = channels_last(pooled).model
    assert_equal_in_value(model, result)
    assert result.model.relax_computation_float32_to_float16
    assert resolved(result.model).constants[0].keys() == result.constants[0].keys()


def test_models_with_channels_last_stay_as_they_are() -> None:
    recipe = ImageRecipe()
    x = recipe.images(1, 8, 8, 3)
    filters = recipe.filters(4, 3, 3, 3)
    model = recipe.build(recipe.apply(OperationType.CONV_2D, x, *filters, [1, 1, 1, 0]))
    assert channels_last(model).model is model
    assert channels_last(model).origins == (0,)
