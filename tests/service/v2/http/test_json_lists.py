"""Long lists in JSON: the same tensors as if they were parsed as a whole, and refusals of what is not a list."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnhal.inference.datatypes import DATATYPES, TensorError
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.http.json_cut import PIECE, cut_json, require_simple
from nnhal_service.v2.http.tensors_json import array_from_json, array_from_text

STRANGE = 'ab"\\[]{},:\u00e9\U0001f600 \n'
INTS = DATATYPES["INT32"]


def text_of(values: object, spaced: bool = False) -> memoryview:
    return memoryview(json.dumps(values, ensure_ascii=spaced, indent=1 if spaced else None).strip()[1:-1].encode())


def parsed(text: memoryview, count: int, name: str = "INT32", limit: int = 0) -> object:
    with RequestMemoryBudget(limit).charge() as charge:
        return array_from_text(DATATYPES[name], (count,), text, charge)


@pytest.mark.parametrize("name", ["BOOL", "INT8", "INT64", "UINT64", "FP32", "FP64", "BYTES"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_long_list_is_the_tensor_that_a_short_one_would_be(name: str, nested: bool) -> None:
    choose = random.Random(name)
    makers: dict[str, Callable[[], list[Any]]] = {
        "BOOL": lambda: [choose.random() < 0.5 for _ in range(20_000)],
        "INT8": lambda: [choose.randrange(-128, 128) for _ in range(20_000)],
        "INT64": lambda: [choose.randrange(-(2**63), 2**63) for _ in range(20_000)],
        "UINT64": lambda: [choose.randrange(2**64) for _ in range(20_000)],
        "FP32": lambda: [choose.uniform(-9, 9) * 10 ** choose.randrange(-9, 9) for _ in range(20_000)],
        "FP64": lambda: [choose.uniform(-9, 9) for _ in range(20_000)],
        "BYTES": lambda: ["".join(choose.choices(STRANGE, k=choose.randrange(20))) for _ in range(20_000)],
    }
    values = makers[name]()
    given = [[values[start : start + 2]] for start in range(0, len(values), 2)] if nested else values
    shape = (10_000, 1, 2) if nested else (20_000,)
    for spaced in (False, True):
        with RequestMemoryBudget().charge() as charge:
            found = array_from_text(DATATYPES[name], shape, text_of(given, spaced), charge)
        expected = array_from_json(DATATYPES[name], shape, given)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_string_that_is_longer_than_a_piece_is_one_element() -> None:
    long = STRANGE * PIECE
    found = parsed(text_of(["a", long, "b"]), 3, "BYTES")
    assert isinstance(found, np.ndarray)
    assert [item.decode() for item in found.tolist()] == ["a", long, "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[],[]", "got ']' at its byte 1"),
        ("1,2,,3", "got ',' at its byte 4"),
        (",1,2,3", "got ',' at its byte 0"),
        ("1,2,3,", "it ends at its byte 6"),
        ("[1][,2]", "got '[' at its byte 3"),
        ("[1]2,3", "got '2' at its byte 3"),
        ("1[,2,3]", "got '[' at its byte 1"),
        ("[[1,],2]", "got ']' at its byte 4"),
        ("1 2,3", "data is not a list of elements: "),
        ('{"a":1},2', "expected elements of INT32"),
        ("1,2,null", "expected elements of INT32"),
        ('1,2,"a"', "expected elements of INT32"),
        ("1,2,1e999", "data is not a list of elements: "),
        ("1,2,4294967296", "got 4294967296, which INT32 cannot hold"),
        ("1,2,3,4", "got 4 elements, expected 3"),
        ("[1,[[2]]]", "got 2 elements, expected 3"),
        ("1,2," + "0" * 3 * PIECE, "an element of INT32 has more than"),
    ],
)
def test_what_is_no_list_of_elements_is_refused(text: str, message: str) -> None:
    with pytest.raises(TensorError) as caught:
        parsed(memoryview(text.encode()), 3)
    assert message in str(caught.value)


def test_lists_without_elements() -> None:
    found = parsed(memoryview(b"[], [[]]"), 0)
    assert isinstance(found, np.ndarray)
    assert found.shape == (0,)
    for text in (b"1", b"[]," * PIECE):
        with pytest.raises(TensorError, match="expected 0 elements"):
            parsed(memoryview(text), 0)


def test_a_tensor_is_within_the_limit_before_it_is_made() -> None:
    text = text_of([0] * 1_000_000)
    for name in ("INT64", "BYTES"):
        with pytest.raises(ServingError, match="--request-memory"):
            parsed(text, 1_000_000, name, 4_000_000)
    with pytest.raises(ServingError, match="--request-memory"):
        parsed(text_of(["a" * 4_000_000]), 1, "BYTES", 4_000_000)
    with pytest.raises(TensorError, match="expected 2097152 at the most"):
        parsed(text_of([""] * 3_000_000), 3_000_000, "BYTES")


def test_the_lists_of_inputs_are_cut_out_and_nothing_else() -> None:
    strange = {"name": '"inputs":[{"data":[1]}]\\"', "shape": [2], "data": [[1], [2]], "parameters": {"a": "[[{"}}
    request = {"id": "}]", "inputs": [strange, {"name": "y", "data": []}], "outputs": [{"name": "o"}]}
    for spaced in (None, 2):
        cut = cut_json(memoryview(json.dumps(request, indent=spaced).encode()))
        assert [json.loads(b"[%b]" % bytes(text)) for text in cut.lists] == [[2], [[1], [2]], []]
        head = json.loads(cut.head)
        assert head["inputs"] == [{**strange, "shape": [0], "data": [1]}, {"name": "y", "data": [2]}]
        assert {**head, "inputs": 0} == {**request, "inputs": 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 100, "nested more than 64 deep"),
        (b'{"a":' * 100, "nested more than 64 deep"),
        (b"]" * 100, "closes more lists and objects than it opens"),
        (b'{"inputs":[{"data":[1}]}', "a list from byte 19 on ends at byte 21"),
        (b'{"inputs":[{"data":[1],"shape":[1]}' + b',{"data":[]}' * 20_000 + b"]}", "more than 16384 lists"),
        (b'{"inputs":[' + b"[]," * 70_000 + b"[]]}", "more than 65536 lists and objects beside"),
        (b'{"id":"' + b"a" * 2_000_000 + b'"}', "more than 1048576 bytes of JSON beside"),
    ],
)
def test_what_would_take_long_to_parse_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(TensorError) as caught:
        cut_json(memoryview(text))
    assert message in str(caught.value)


def test_other_bodies_are_simple() -> None:
    require_simple(memoryview(json.dumps({"parameters": {"file:1/model.onnx": "[{," * 100_000}}).encode()), 10)
    with pytest.raises(TensorError, match="more than 100 lists, objects and members"):
        require_simple(memoryview(b"[" + b"0," * 200 + b"0]"), 100)
