from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.types import ChannelQuant, OperandLifeTime, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_tools.cases.vectors import parse_vector, read_vectors


def operand(code: str, lifetime: str, dimensions: list[int] | None = None, **fields: Any) -> dict[str, Any]:
    plain = {"name": "x", "dimensions": dimensions or [], "scale": 0.0, "zero_point": 0}
    return {**plain, "type": code, "lifetime": lifetime, **fields}


def addition(**fields: Any) -> dict[str, Any]:
    """[1, nan] + [inf, 4]; the activation is copied."""
    main = {
        "operands": [
            operand("TENSOR_FLOAT32", "SUBGRAPH_INPUT", [2], data=[1.0, "nan"]),
            operand("TENSOR_FLOAT32", "SUBGRAPH_INPUT", [2], data=["inf", 4]),
            operand("INT32", "CONSTANT_COPY", data=[0]),
            operand("TENSOR_FLOAT32", "SUBGRAPH_OUTPUT", [2], data=["inf", "nan"]),
        ],
        "operations": [{"type": "ADD", "inputs": [0, 1, 2], "outputs": [3]}],
        "inputs": [0, 1],
        "outputs": [3],
    }
    plain = {"name": "add_1", "spec": "add", "relaxed": False, "expect_failure": False, "multinomial_tolerance": 0.0}
    return {**plain, "main": main, "referenced": [], **fields}


def with_operand(test: dict[str, Any], index: int, **fields: Any) -> dict[str, Any]:
    test["main"]["operands"][index] |= fields
    return test


def test_a_test_is_a_valid_model_with_values_to_feed_and_to_expect() -> None:
    vector = parse_vector(addition())
    assert validate_model(vector.model) == 1
    assert (vector.name, vector.group, vector.operations) == ("add_1", "add", ("ADD",))
    first, second = vector.inputs
    np.testing.assert_array_equal(first, np.array([1, np.nan], np.float32), strict=True)
    np.testing.assert_array_equal(second, np.array([np.inf, 4], np.float32), strict=True)
    (expected,) = vector.outputs
    np.testing.assert_array_equal(expected.values, np.array([np.inf, np.nan], np.float32), strict=True)
    assert expected.compared
    assert not vector.expect_failure


def test_plain_and_gzipped_files_hold_one_test_a_line(tmp_path: Path) -> None:
    text = "".join(json.dumps(addition(name=f"add_{number}")) + "\n" for number in range(3))
    (tmp_path / "plain.jsonl").write_text(text)
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as file:
        file.write(text)
    for path in (tmp_path / "plain.jsonl", tmp_path / "packed.jsonl.gz"):
        assert [vector.name for vector in read_vectors(path)] == ["add_0", "add_1", "add_2"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "JSONDecodeError"),
        ("{}", "KeyError: 'main'"),
        ("[]", "TypeError"),
        (json.dumps(with_operand(addition(), 0, type="TENSOR_FLOAT64")), "KeyError: 'TENSOR_FLOAT64'"),
        (json.dumps(addition(limits={"max_ulp": 1}, mode="burst")), "ValueError: got limits, mode, expected only "),
        (json.dumps(with_operand(addition(), 0, data=["many"])), "ValueError: could not convert string to float"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "tests.jsonl"
    path.write_text(json.dumps(addition()) + "\n" + line + "\n")
    vectors = read_vectors(path)
    next(vectors)
    with pytest.raises(ValueError, match=rf"tests\.jsonl:2: {reason}"):
        next(vectors)


def test_constants_lie_one_after_the_other_at_multiples_of_4() -> None:
    test = addition()
    constants = [
        operand("TENSOR_QUANT8_ASYMM", "CONSTANT_COPY", [3], scale=0.5, zero_point=7, data=[1, 2, 255]),
        operand("TENSOR_FLOAT16", "CONSTANT_REFERENCE", [1], data=[0.5]),
    ]
    test["main"]["operands"] += constants
    model = parse_vector(test).model
    validate_model(model)
    placed = [o for o in model.main.operands if o.lifetime == OperandLifeTime.CONSTANT_COPY]
    assert [(o.location.offset, o.location.length) for o in placed] == [(0, 4), (4, 3), (8, 2)]
    assert (placed[1].type, placed[1].scale, placed[1].zero_point) == (OperandType.TENSOR_QUANT8_ASYMM, 0.5, 7)
    assert model.operand_values == bytes([0, 0, 0, 0, 1, 2, 255, 0]) + np.float16(0.5).tobytes()


def test_an_input_without_data_is_omitted() -> None:
    assert parse_vector(with_operand(addition(), 0, data=[])).inputs[0] is None
    assert parse_vector(with_operand(addition(), 0, data=None)).inputs[0] is None


@pytest.mark.parametrize(
    ("code", "relaxed", "absolute", "relative"),
    [
        ("TENSOR_FLOAT32", False, 1e-5, 5 * 2.0**-23),
        ("TENSOR_FLOAT32", True, 5 * 2.0**-10, 5 * 2.0**-10),
        ("TENSOR_FLOAT16", False, 5 * 2.0**-10, 5 * 2.0**-10),
        ("TENSOR_QUANT8_ASYMM", False, 1.0, 0.0),
        ("TENSOR_INT32", False, 1.0, 0.0),
        ("TENSOR_BOOL8", False, 0.0, 0.0),
    ],
)
def test_how_near_an_output_must_come_depends_on_its_type(
    code: str, relaxed: bool, absolute: float, relative: float
) -> None:
    (expected,) = parse_vector(with_operand(addition(relaxed=relaxed), 3, type=code, data=[1, 0])).outputs
    assert (expected.absolute, expected.relative) == (absolute, relative)


def test_an_output_may_be_left_uncompared() -> None:
    (expected,) = parse_vector(with_operand(addition(), 3, ignored=True)).outputs
    assert not expected.compared


def test_per_channel_quantisation_goes_along() -> None:
    test = with_operand(
        addition(),
        1,
        type="TENSOR_QUANT8_SYMM_PER_CHANNEL",
        data=[-128, 127],
        channel_quant={"channel_dim": 0, "scales": [0.5, 0.25]},
    )
    vector = parse_vector(test)
    assert vector.model.main.operands[1].extra_params == ChannelQuant((0.5, 0.25), 0)
    np.testing.assert_array_equal(vector.inputs[1], np.array([-128, 127], np.int8), strict=True)


def test_subgraphs_are_referred_to_by_number_and_share_the_constants() -> None:
    test = addition()
    branch = {**addition()["main"]}
    test["referenced"] = [branch]
    test["main"]["operands"].append(operand("SUBGRAPH", "SUBGRAPH", subgraph=0))
    model = parse_vector(test).model
    validate_model(model)
    assert model.main.operands[4].location.offset == 0
    assert model.referenced[0].operations[0].type == OperationType.ADD
    assert model.referenced[0].operands[2].location.offset == 4
    assert len(model.operand_values) == 8
