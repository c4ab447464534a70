"""Files whose large constants are left in their bytes: what is read of them is what the whole message has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from nnhal_frontends import import_whole_file
from nnhal_frontends.onnx.file_apart import read_apart
from nnhal_frontends.onnx.weights_apart import LEAST_BYTES, take_weights_out
from tests.support.onnx_models import onnx_model, random

LARGE = random(520, 520, seed=1)
SMALL = random(520, seed=2)
"""Large constants make a file large enough to be walked through, and others stay in its message."""


def network() -> ModelProto:
    """x times an initializer, plus a small one, times a node Constant."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Add", ["a", "b"], ["c"], name="second"),
        helper.make_node("Constant", [], ["v"], name="constant", value=numpy_helper.from_array(LARGE.T.copy(), "v")),
        helper.make_node("MatMul", ["c", "v"], ["y"], name="last"),
    ]
    return onnx_model(nodes, {"x": [2, 520]}, ["y"], {"w": LARGE, "b": SMALL})


def test_large_constants_are_views_of_the_file() -> None:
    content = network().SerializeToString()
    found = read_apart(content)
    assert found is not None
    assert list(found.initializers) == ["w"] and list(found.constants) == ["v"]
    np.testing.assert_array_equal(found.initializers["w"], LARGE)
    np.testing.assert_array_equal(found.constants["v"], LARGE.T)
    assert not any(
        values.flags.owndata or values.flags.writeable for values in (*found[1].values(), *found[2].values())
    )
    assert found.model.ByteSize() < LEAST_BYTES
    onnx.checker.check_model(take_weights_out(found.model, found.initializers, found.constants).model)


def test_the_rest_is_the_message_of_the_file() -> None:
    whole = network()
    found = read_apart(whole.SerializeToString())
    assert found is not None
    whole.graph.initializer[0].ClearField("raw_data")
    whole.graph.node[2].attribute[0].t.ClearField("raw_data")
    assert found.model == whole


def test_a_file_is_imported_as_its_message_is(monkeypatch: pytest.MonkeyPatch) -> None:
    content = network().SerializeToString()
    apart = import_whole_file(content, {})
    monkeypatch.setattr("nnhal_frontends.onnx.file_apart.read_apart", lambda _: None)
    whole = import_whole_file(content, {})
    assert apart is not None and whole is not None
    assert (apart.model.main, apart.inputs, apart.outputs) == (whole.model.main, whole.inputs, whole.outputs)
    ours, theirs = (each.resolved().constants[0] for each in (apart, whole))
    assert {index: values.tobytes() for index, values in ours.items()} == {
        index: values.tobytes() for index, values in theirs.items()
    }


def in_other_data(model: ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, LARGE.shape, LARGE.ravel()))


def of_another_length(model: ModelProto) -> None:
    model.graph.initializer[0].dims[0] -= 1


def of_another_type(model: ModelProto) -> None:
    model.graph.initializer[0].data_type = 99


def with_a_name_twice(model: ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(SMALL, "w"))


def without_a_name(model: ModelProto) -> None:
    model.graph.initializer[0].ClearField("name")


def of_another_operator(model: ModelProto) -> None:
    model.graph.node[2].op_type = "Other"


def elsewhere(model: ModelProto) -> None:
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL


@pytest.mark.parametrize(
    "change",
    [of_another_length, of_another_type, with_a_name_twice, without_a_name, of_another_operator, elsewhere],
)
def test_what_is_not_as_writers_leave_it_is_parsed_as_a_whole(change: Callable[[ModelProto], None]) -> None:
    model = network()
    change(model)
    assert read_apart(model.SerializeToString()) is None


def test_constants_that_are_not_raw_stay_in_the_message() -> None:
    model = network()
    in_other_data(model)
    found = read_apart(model.SerializeToString())
    assert found is not None
    assert (list(found.initializers), list(found.constants)) == ([], ["v"])
    assert found.model.graph.initializer[0] == model.graph.initializer[0]


def test_messages_in_pieces_are_read_as_one() -> None:
    whole = network()
    second = ModelProto()
    second.graph.initializer.append(numpy_helper.from_array(LARGE + 1, "u"))
    content = whole.SerializeToString() + second.SerializeToString()
    found = read_apart(content)
    assert found is not None
    assert sorted(found.initializers) == ["u", "w"]
    np.testing.assert_array_equal(found.initializers["u"], LARGE + 1)
    assert len(found.model.graph.initializer) == len(ModelProto.FromString(content).graph.initializer)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.999])
def test_a_file_that_ends_early_is_none(keep: float) -> None:
    content = network().SerializeToString()
    assert read_apart(content[: int(len(content) * keep)]) is None


def test_values_twice_are_not_read_apart() -> None:
    values = TensorProto(raw_data=LARGE.tobytes()).SerializeToString()
    assert read_apart(_field(7, _field(5, values))) is None  # without a name
    named = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=LARGE.shape).SerializeToString() + values
    assert read_apart(_field(7, _field(5, named))) is not None
    assert read_apart(_field(7, _field(5, named + values))) is None


def test_a_small_file_is_not_walked_through() -> None:
    assert (
        read_apart(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"]).SerializeToString()) is None
    )


def _field(number: int, content: bytes) -> bytes:
    found, length = bytearray([number << 3 | 2]), len(content)
    while length >= 0x80:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(found) + bytes([length]) + content
