"""Sparse constants: all orders, blocks and index types, as LiteRT's DENSIFY reads them; and malformed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_frontends.errors import FrontendError, InvalidModel
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.tflite import import_tflite
from tests.support.tflite_files import Level, Options, Sparsity, Spec, TfliteFile, floats
from tests.support.tflite_operators import check, one


def sparse(
    dense: Array,
    order: Sequence[int],
    compressed: Sequence[bool],
    blocks: dict[int, int] | None = None,
    index_type: type = np.int32,
) -> tuple[Sparsity, Array]:
    """Return how a tensor is stored, and the values that are.

    ``order`` has the axis of each level, ``compressed`` whether it is sparse, ``blocks`` the length of blocks by axis.
    """
    blocks = blocks or {}
    cut = list(blocks)
    rank = dense.ndim
    sizes = [dense.shape[a] // blocks.get(a, 1) if a < rank else blocks[cut[a - rank]] for a in order]

    def part(prefix: tuple[int, ...]) -> Array:
        """The elements below some indexes of the outermost levels."""
        found = dense
        place = dict(zip(order, prefix, strict=False))
        for axis in range(rank):
            block = blocks.get(axis, 1)
            inner = place.get(rank + cut.index(axis)) if axis in cut else 0
            outer = place.get(axis)
            outers = range(dense.shape[axis] // block) if outer is None else [outer]
            inners = range(block) if inner is None else [inner]
            found = np.take(found, [o * block + i for o in outers for i in inners], axis)
        return found

    prefixes: list[tuple[int, ...]] = [()]
    levels = []
    for size, is_sparse in zip(sizes, compressed, strict=True):
        if not is_sparse:
            levels.append(Level(size))
            prefixes = [(*prefix, i) for prefix in prefixes for i in range(size)]
            continue
        present = [[i for i in range(size) if part((*prefix, i)).any()] for prefix in prefixes]
        ends: Array = np.cumsum([0, *map(len, present)]).astype(index_type)
        levels.append(Level(0, ends, np.array([i for row in present for i in row], index_type)))
        prefixes = [(*prefix, i) for prefix, row in zip(prefixes, present, strict=True) for i in row]
    return Sparsity(order, cut, levels), np.array([part(prefix).item() for prefix in prefixes], dense.dtype)


BLOCKS: list[dict[int, int]] = [{}, {0: 2}, {1: 3}, {0: 2, 1: 3}, {0: 4, 1: 2}]


def random_sparse(*shape: int, element: Any = np.float32, seed: int = 0) -> Array:
    """Integers of which every third is not 0, as elements of a type."""
    random = np.random.default_rng(seed)
    return (random.integers(-9, 10, shape) * (random.random(shape) < 0.3)).astype(element)


def file(dense: Array, sparsity: Sparsity, values: Array, spec: Spec | None = None) -> bytes:
    found = TfliteFile()
    x = found.input("x", floats(*dense.shape))
    stored = found.constant(values, spec or Spec(dense.shape, dense.dtype, sparsity=sparsity))
    (d,) = found.operator("DENSIFY", [stored], {"dense": Spec(dense.shape, dense.dtype)})
    if dense.dtype != np.float32:
        (d,) = found.operator("DEQUANTIZE", [d], {"reals": floats(*dense.shape)})
    return found.build(*found.operator("ADD", [x, d], {"y": floats(*dense.shape)}, ("AddOptions", {})))


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("index_type", [np.int32, np.uint16, np.uint8])
def test_every_order_of_levels_is_read_as_litert_reads_it(blocks: dict[int, int], index_type: type) -> None:
    dense, x = random_sparse(8, 6), np.zeros((8, 6), np.float32)
    for number, outer in enumerate(permutations(range(2))):
        order = [*outer, *range(2, 2 + len(blocks))]
        for pattern in ((True, True), (False, True), (True, False), (False, False)):
            compressed = [*pattern, *[False] * len(blocks)]
            check(file(dense, *sparse(dense, order, compressed, blocks, index_type)), {"x": x}, tolerance=0)
        assert number < 2


@pytest.mark.parametrize("seed", range(8))
def test_what_is_stored_in_any_way_is_read_again(seed: int) -> None:
    # LiteRT reads orders in which blocks come before other axes in another way than the schema says.
    random = np.random.default_rng(seed)
    blocks = {int(axis): 2 for axis in random.permutation(3)[: seed % 4]}
    order = [int(axis) for axis in random.permutation(3 + len(blocks))]
    compressed = [axis < 3 and bool(random.integers(2)) for axis in order]
    dense = random_sparse(4, 6, 2, seed=seed)
    imported = import_tflite(file(dense, *sparse(dense, order, compressed, blocks)))
    np.testing.assert_array_equal(imported.resolved().constants[0][imported.model.main.operations[0].inputs[1]], dense)


@pytest.mark.parametrize("element", [np.float16, np.float32])
def test_a_convolution_reads_sparse_weights(element: Any) -> None:
    dense = random_sparse(4, 1, 1, 16, element=element)
    sparsity, values = sparse(dense, [0, 1, 2, 3, 4], [False, False, False, True, False], {3: 4})
    found = TfliteFile()
    x = found.input("x", floats(1, 5, 5, 16))
    w = found.constant(values, Spec(dense.shape, element, sparsity=sparsity))
    (w,) = found.operator("DENSIFY", [w], {"dense": Spec(dense.shape, element)})
    if element == np.float16:
        (w,) = found.operator("DEQUANTIZE", [w], {"reals": floats(4, 1, 1, 16)})
    bias = found.constant(np.zeros(4, np.float32))
    options = ("Conv2DOptions", {"StrideW": 1, "StrideH": 1})
    content = found.build(*found.operator("CONV_2D", [x, w, bias], {"y": floats(1, 5, 5, 4)}, options))
    check(content, {"x": np.linspace(-1, 1, 400, dtype=np.float32).reshape(1, 5, 5, 16)})


def test_quantised_weights_may_be_sparse_without_a_densify() -> None:
    dense = random_sparse(6, 8, element=np.int8)
    sparsity, values = sparse(dense, [0, 1], [False, True])
    weights = Spec((6, 8), np.int8, 0.5, 0, sparsity=sparsity)
    options: Options = ("FullyConnectedOptions", {})
    node = one("FULLY_CONNECTED", [floats(2, 8), (values, weights), None], floats(2, 6), options)
    plain = one(
        "FULLY_CONNECTED", [floats(2, 8), (dense, replace(weights, sparsity=None)), None], floats(2, 6), options
    )
    constants = [list(import_tflite(each.file()).resolved().constants[0].values()) for each in (node, plain)]
    for got, expected in zip(*constants, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_constant_of_zeros_stores_nothing() -> None:
    dense = np.zeros((4, 4), np.float32)
    imported = import_tflite(file(dense, *sparse(dense, [0, 1], [False, True])))  # LiteRT refuses it
    np.testing.assert_array_equal(imported.resolved().constants[0][imported.model.main.operations[0].inputs[1]], dense)


def level(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


ROWS, SEGMENTS, COLUMNS = Level(2), level(0, 1, 3), level(2, 0, 1)


@pytest.mark.parametrize(
    ("sparsity", "message"),
    [
        (Sparsity([0, 1], [], [ROWS]), "1 levels for the axes 0, 1, expected each of 0 to 1 once"),
        (Sparsity([0, 0], [], [ROWS, ROWS]), "2 levels for the axes 0, 0"),
        (Sparsity([0, 7], [], [ROWS, ROWS]), "2 levels for the axes 0, 7"),
        (
            Sparsity([0, 1], [], [Level(2**31 - 1), Level(3)]),
            "2147483647 indexes along axis 0 of its levels, expected 2",
        ),
        (Sparsity([0, 1], [], [ROWS, Level(3)]), "3 values and 6 elements at level 1"),
        (
            Sparsity([0, 1], [], [ROWS, Level(0, SEGMENTS, level(2, 0, 3))]),
            "indexes from 0 to 3 at level 1, expected 0 to 2",
        ),
        (Sparsity([0, 1], [], [ROWS, Level(0, SEGMENTS, level(2, -1, 1))]), "indexes from -1 to 2 at level 1"),
        (Sparsity([0, 1], [], [ROWS, Level(0, level(0, 3), COLUMNS)]), "2 ends of segments at level 1, expected 3"),
        (Sparsity([0, 1], [], [ROWS, Level(0, level(0, 4, 3), COLUMNS)]), "segments at level 1 that do not follow"),
        (Sparsity([0, 1], [], [ROWS, Level(0, level(0, 1, 9), COLUMNS)]), "segments at level 1 that do not follow"),
        (Sparsity([0, 1], [], [ROWS, Level(0, level(0, 1, 2), level(2, 0))]), "3 values, expected one for each of 2"),
        (Sparsity([0, 1, 2], [5], [ROWS, ROWS, ROWS]), "blocks along the axes 5, expected different ones of 0 to 1"),
        (Sparsity([0, 1, 2], [1], [ROWS, ROWS, ROWS]), "blocks of 2 along axis 1, expected ones that fill it"),
        (Sparsity([0, 1, 2], [1], [ROWS, Level(3), Level(0)]), "blocks of 0 along axis 1"),
    ],
)
def test_a_malformed_one_is_refused_in_words(sparsity: Sparsity, message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        import_tflite(file(np.zeros((2, 3), np.float32), sparsity, np.ones(3, np.float32)))


def test_one_that_takes_too_much_memory_is_refused() -> None:
    huge = (1 << 14, 1 << 14)
    sparsity = Sparsity([0, 1], [], [Level(0, level(0, 1), level(5)), Level(0, level(0, 1), level(7))])
    content = file(np.broadcast_to(np.float32(0), huge), sparsity, np.ones(1, np.float32))
    with pytest.raises(FrontendError, match=r"the sparse constant .* takes 1073741824 bytes"):
        import_tflite(content, ImportLimits(folded_bytes=1 << 20))
