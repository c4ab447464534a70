"""Every builtin operator of the schema that LiteRT runs is run too, with the same values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tflite

from nnhal.support import Unsupported
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends.tflite import import_tflite
from nnhal_frontends.tflite.ops import CONVERTERS
from tests.frontends.tflite_extension import RUN, check, names_of, run
from tests.support.drawn_values import random
from tests.support.onnx_models import resolved
from tests.support.tflite_files import Options, Spec, booleans, floats, int32
from tests.support.tflite_operators import OPTIMISED, by_litert, numbers, one

_SCHEMA = {name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}


class Case(NamedTuple):
    """An operator that the HAL has no operation for."""

    inputs: Sequence[Any]
    outputs: Spec | Sequence[Spec]
    options: Options | None = None
    values: dict[int, Any] = {}
    version: int = 1


def complex64(*shape: int) -> Spec:
    return Spec(shape, np.complex64)


X = floats(2, 3)
STEPS = {"StrideD": 1, "StrideH": 1, "StrideW": 1, "DilationDFactor": 1, "DilationHFactor": 1, "DilationWFactor": 1}
SEEDS = ("RandomOptions", {"Seed": 1, "Seed2": 2})
BOXES = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [3, 0, 4, 1], [3, 0, 4, 1.1], [9, 9, 10, 10]]
NMS = [floats(6, 4), floats(6), numbers(3), np.float32(0.5), np.float32(-9)]

CASES = {
    "ATAN2": Case([X, X], X),
    "BITCAST": Case([X], int32(2, 3)),
    "BITWISE_XOR": Case([int32(2, 3), int32(2, 3)], int32(2, 3)),
    "BROADCAST_ARGS": Case([int32(2), int32(1)], int32(2), values={0: [2, 3], 1: [1]}),
    "BUCKETIZE": Case([X], int32(2, 3), ("BucketizeOptions", {"Boundaries": np.array([-1, 0, 1], np.float32)})),
    "COMPLEX_ABS": Case([complex64(2, 3)], X),
    "CONV_3D": Case(
        [floats(1, 4, 4, 4, 2), random(2, 2, 2, 2, 3)],
        floats(1, 3, 3, 3, 3),
        ("Conv3DOptions", {**STEPS, "Padding": 1}),
    ),
    "CONV_3D_TRANSPOSE": Case(
        [numbers([1, 2, 2, 2, 3]), random(2, 2, 2, 3, 2), floats(1, 2, 2, 2, 2)],
        floats(1, 2, 2, 2, 3),
        ("Conv3DOptions", STEPS),
    ),
    "CUMSUM": Case([X, numbers(1)], X, ("CumsumOptions", {"Exclusive": True})),
    "DILATE": Case([X, numbers([2, 1]), np.float32(0.5)], floats(3, 3), ("DilateOptions", {})),
    "DYNAMIC_UPDATE_SLICE": Case([floats(4, 3), X, int32(2)], floats(4, 3), values={2: [1, 0]}),
    "EMBEDDING_LOOKUP_SPARSE": Case(
        [int32(3), numbers([[0, 0], [0, 1], [1, 0]]), numbers([2, 2]), floats(3), floats(4, 5)],
        floats(2, 5),
        ("EmbeddingLookupSparseOptions", {}),
        {0: [1, 3, 0]},
    ),
    "FAKE_QUANT": Case([X], X, ("FakeQuantOptions", {"Min": -1.0, "Max": 1.0, "NumBits": 8})),
    "GATHER_ND": Case([floats(4, 3), numbers([[0, 1], [3, 2]])], floats(2)),
    "GELU": Case([X], X, ("GeluOptions", {"Approximate": True})),
    "IMAG": Case([complex64(2, 3)], X),
    "MATRIX_DIAG": Case([X], floats(2, 3, 3)),
    "MATRIX_SET_DIAG": Case([floats(2, 3, 3), X], floats(2, 3, 3)),
    "NON_MAX_SUPPRESSION_V4": Case(NMS, [int32(3), int32()], values={0: BOXES}),
    "NON_MAX_SUPPRESSION_V5": Case([*NMS, np.float32(0.5)], [int32(3), floats(3), int32()], values={0: BOXES}),
    "ONE_HOT": Case(
        [int32(3), numbers(4), np.float32(1), np.float32(0)], floats(3, 4), ("OneHotOptions", {"Axis": -1})
    ),
    "RANGE": Case([floats(), floats(), floats()], floats(0), values={0: 1, 1: 6, 2: 1.5}),
    "REAL": Case([complex64(2, 3)], X),
    "REDUCE_WINDOW": Case(
        [floats(4, 4), np.float32(0), np.array([2, 2]), np.array([1, 1]), np.array([1, 1])],
        floats(3, 3),
        ("ReduceWindowOptions", {"ReduceFunction": 1}),
    ),
    "REVERSE_SEQUENCE": Case(
        [floats(2, 4, 3), numbers([2, 3])], floats(2, 4, 3), ("ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0})
    ),
    "RFFT2D": Case([floats(4, 8), numbers([4, 8])], complex64(4, 5)),
    "RIGHT_SHIFT": Case([int32(2, 3), numbers([[1, 2, 3]] * 2)], int32(2, 3)),
    "ROUND": Case([X], X),
    "SCATTER_ND": Case([numbers([[1], [3]]), X, numbers([5, 3])], floats(5, 3)),
    "SEGMENT_SUM": Case([floats(4, 3), numbers([0, 0, 1, 1])], X),
    "SIGN": Case([X], X),
    "SPARSE_TO_DENSE": Case([numbers([[0, 1], [2, 0]]), numbers([3, 3]), floats(2), np.float32(9)], floats(3, 3)),
    "STABLEHLO_ADD": Case([X, X], X),
    "STABLEHLO_AND": Case([booleans(2, 3), booleans(2, 3)], booleans(2, 3)),
    "STABLEHLO_GATHER": Case(
        [floats(4, 3), numbers([[0], [2]])],
        X,
        (
            "StablehloGatherOptions",
            {
                "OffsetDims": np.array([1]),
                "CollapsedSliceDims": np.array([0]),
                "StartIndexMap": np.array([0]),
                "IndexVectorDim": 1,
                "SliceSizes": np.array([1, 3]),
            },
        ),
    ),
    "STABLEHLO_MAXIMUM": Case([X, X], X),
    "STABLEHLO_MINIMUM": Case([X, X], X),
    "STABLEHLO_MULTIPLY": Case([X, X], X),
    "STABLEHLO_PAD": Case(
        [X, np.float32(1)],
        floats(4, 4),
        (
            "StablehloPadOptions",
            {
                "EdgePaddingLow": np.array([1, 0]),
                "EdgePaddingHigh": np.array([1, 1]),
                "InteriorPadding": np.array([0, 0]),
            },
        ),
    ),
    "STABLEHLO_RNG_BIT_GENERATOR": Case(
        [Spec([2], np.uint64)],
        [Spec([2], np.uint64), Spec([4], np.uint32)],
        ("StablehloRngBitGeneratorOptions", {"Algorithm": 2}),
        {0: [1, 2]},
    ),
    "STABLEHLO_SHIFT_LEFT": Case([int32(2, 3), numbers([[1, 2, 3]] * 2)], int32(2, 3)),
    "TOPK_V2": Case(
        [int32(2, 4), numbers(3)], [int32(2, 3), int32(2, 3)], ("TopKV2Options", {}), {0: [[3, 9, 3, 9]] * 2}
    ),
    "UNIQUE": Case([int32(5)], [int32(0), int32(5)], ("UniqueOptions", {"IdxOutType": 2})),
    "UNSORTED_SEGMENT_MAX": Case([floats(4, 3), numbers([1, 0, 1, 0]), numbers(2)], X),
    "UNSORTED_SEGMENT_MIN": Case([floats(4, 3), numbers([1, 0, 1, 0]), numbers(2)], X),
    "UNSORTED_SEGMENT_PROD": Case([floats(4, 3), numbers([1, 0, 1, 0]), numbers(2)], X),
    "UNSORTED_SEGMENT_SUM": Case([floats(4, 3), numbers([1, 0, 1, 0]), numbers(2)], X),
    "WHERE": Case([booleans(2, 3)], Spec((0, 2), np.int64)),
}

RANDOM = {
    "MULTINOMIAL": Case([X, numbers(4)], Spec((2, 4), np.int64), SEEDS),
    "RANDOM_STANDARD_NORMAL": Case([numbers([2, 3])], X, SEEDS),
    "RANDOM_UNIFORM": Case([numbers([2, 3])], X, SEEDS),
}

ELSEWHERE = {
    "ASSIGN_VARIABLE": "variables",
    "CALL_ONCE": "variables and tables",
    "CUSTOM": "custom operators",
    "HASHTABLE": "tables",
    "HASHTABLE_FIND": "tables",
    "HASHTABLE_IMPORT": "tables",
    "HASHTABLE_SIZE": "tables",
    "READ_VARIABLE": "variables",
    "SKIP_GRAM": "strings",
    "STABLEHLO_COMPOSITE": "operators with subgraphs",
    "STABLEHLO_REDUCE_WINDOW": "operators with subgraphs",
    "STABLEHLO_SCATTER": "operators with subgraphs",
    "VAR_HANDLE": "variables",
}
"""Operators that other tests are about."""

_OTHER_TESTS = {name for name, why in ELSEWHERE.items() if why in ("tables", "strings", "operators with subgraphs")}
BY_LITERT = {*CASES, *RANDOM, *_OTHER_TESTS} - set(CONVERTERS)
"""The operators that are left to LiteRT."""
LACKING = _SCHEMA - set(CASES) - set(RANDOM) - set(ELSEWHERE) - set(CONVERTERS)


@pytest.mark.parametrize("code", CASES)
def test_litert_runs_it_with_its_own_values(code: str) -> None:
    inputs, outputs, options, values, version = CASES[code]
    node = one(code, inputs, outputs, options, values=values, version=version)
    imported = check(node.file(), node.arrays(), tolerance=0)
    assert names_of(imported) == [RUN]


@pytest.mark.parametrize("code", RANDOM)
def test_random_numbers_are_drawn(code: str) -> None:
    inputs, outputs, options, values, version = RANDOM[code]
    node = one(code, inputs, outputs, options, values=values, version=version)
    (got,) = run(import_tflite(node.file()), node.arrays())
    assert got.shape == np.shape(by_litert(node.file(), node.arrays(), OPTIMISED)[0])


@pytest.mark.parametrize("code", sorted(LACKING))
def test_what_litert_has_no_kernel_for_is_said_by_the_device(code: str) -> None:
    (answer,) = CpuRef().supported_operations(resolved(import_tflite(one(code, [X], X).file()).model))
    assert isinstance(answer, Unsupported)
    assert answer.code == "OP"
    assert code in answer.got
    assert len(answer.got) < 200
