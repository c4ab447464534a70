"""Reading TFLite files: what is read, and which files are refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
import tflite
from hypothesis import given
from hypothesis import strategies as st

from nnhal.validation import validate_model
from nnhal_frontends.errors import FrontendError, InvalidModel
from nnhal_frontends.tflite import import_tflite
from nnhal_frontends.tflite.graph import TfliteQuantization
from nnhal_frontends.tflite.reader import read_graphs
from nnhal_frontends.tflite_identifier import is_tflite
from tests.support.drawn_values import integers, random
from tests.support.searching import search
from tests.support.tflite_files import Spec, TfliteFile, floats, int8
from tests.support.tflite_operators import one

ADD = one("ADD", [floats(2, 3), random(3)], floats(2, 3), ("AddOptions", {"FusedActivationFunction": 1}))


def varied() -> bytes:
    """A file with most of what the schema has: scales for each channel, vectors among the options, constants."""
    file = TfliteFile()
    x = file.input("x", int8(1, 6, 6, 2))
    scales = [0.01, 0.02, 0.03, 0.04]
    kernel = file.constant(integers(4, 3, 3, 2), int8(4, 3, 3, 2, scale=scales))
    bias = file.constant([1, 2, 3, 4], Spec([4], np.int32, [0.05 * scale for scale in scales]))
    window = ("Conv2DOptions", {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1})
    (a,) = file.operator("CONV_2D", [x, kernel, bias], {"a": int8(1, 6, 6, 4)}, window)
    (b,) = file.operator("RESHAPE", [a], {"b": int8(1, 144)}, ("ReshapeOptions", {"NewShape": [1, 144]}))
    (c,) = file.operator("DEQUANTIZE", [b], {"c": floats(1, 144)})
    (d,) = file.operator("LEAKY_RELU", [c], {"d": floats(1, 144)}, ("LeakyReluOptions", {"Alpha": 0.1}))
    bounds = [file.constant(np.array(values, np.int32)) for values in ([0, 1], [1, 4], [1, 1])]
    (e,) = file.operator("STRIDED_SLICE", [d, *bounds], {"e": floats(1, 3)}, ("StridedSliceOptions", {"BeginMask": 1}))
    (f,) = file.operator("SQUEEZE", [e], {"f": floats(3)}, ("SqueezeOptions", {"SqueezeDims": [0]}))
    return file.build(f, c)


VARIED = varied()


def test_a_file_is_known_by_its_identifier() -> None:
    content = ADD.file()
    assert is_tflite(content)
    assert not is_tflite(b"\x08\x08\x12\x04onnx")
    with pytest.raises(InvalidModel, match=r"bytes 4 to 8 are 54464c32, expected 54464c33"):
        read_graphs(content[:4] + b"TFL2" + content[8:])


def test_a_version_other_than_3_is_refused() -> None:
    file = TfliteFile(version=2)
    x = file.input("x", floats(1))
    with pytest.raises(InvalidModel, match="version 2, expected 3"):
        read_graphs(file.build(*file.operator("RELU", [x], {"y": floats(1)})))


def test_tensors_and_operators_are_read() -> None:
    (graph,) = read_graphs(VARIED)
    assert [operator.name for operator in graph.operators][:2] == ["CONV_2D_0:a", "RESHAPE_1:b"]
    assert graph.operators[1].vector == (1, 144)
    assert graph.operators[0].options_as(tflite.Conv2DOptions).StrideW == 1
    assert graph.tensors[graph.inputs[0]].quantization == TfliteQuantization((float(np.float32(0.05)),), (3,))
    kernel = graph.tensors[graph.operators[0].inputs[1] or 0]
    assert kernel.quantization is not None
    assert kernel.quantization.per_channel
    assert kernel.data is not None
    assert kernel.data.size == 72


def test_options_that_are_left_out_have_their_defaults() -> None:
    (operator,) = read_graphs(replace(ADD, options=None).file())[0].operators
    assert operator.options_as(tflite.AddOptions).FusedActivationFunction == 0
    assert operator.options_as(tflite.BidirectionalSequenceLSTMOptions).TimeMajor


def test_options_of_another_operator_are_refused() -> None:
    node = replace(ADD, options=("MulOptions", {"FusedActivationFunction": 1}))
    with pytest.raises(InvalidModel, match=r"'ADD_0:y0' has options of type \d+, expected AddOptions"):
        import_tflite(node.file())


def test_lengths_that_may_change_are_unknown_and_begin_as_the_file_says() -> None:
    file = TfliteFile()
    x = file.input("x", Spec([1, 4], signature=[-1, 4]))
    (graph,) = read_graphs(file.build(*file.operator("RELU", [x], {"y": floats(1, 4)})))
    assert graph.tensors[x].shape == (0, 4)
    assert graph.tensors[x].initial_shape == (1, 4)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Spec([-2, 3]), "lengths of 0 or more"),
        (Spec([2, 3], signature=[2]), r"shape \[2, 3\] and signature \[2\]"),
        (Spec([2, 3], np.int8, float("nan")), "scales that are not finite"),
        (Spec([2, 3], np.int8, [0.1, 0.2], axis=2), "along axis 2"),
    ],
)
def test_tensors_that_contradict_themselves_are_refused(spec: Spec, reason: str) -> None:
    with pytest.raises(InvalidModel, match=reason):
        read_graphs(one("RELU", [spec], floats(2, 3)).file())


def test_values_must_be_written_before_they_are_read_and_once() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("RELU", [x], {"y": floats(2)})
    never = file.variable("v", floats(2)) + 1
    file.operator("ADD", [y, never], {"z": floats(2)})
    with pytest.raises(InvalidModel, match="'ADD_1:z' reads 'z', which nothing has written before"):
        read_graphs(file.build(never))
    with pytest.raises(InvalidModel, match="'y' is an input twice, or a constant"):
        file = TfliteFile()
        x = file.input("y", floats(2))
        file.inputs.append(x)
        read_graphs(file.build(*file.operator("RELU", [x], {"y": floats(2)})))


def test_indexes_outside_the_file_are_refused() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    file.operator("RELU", [x + 7], {"y": floats(2)})
    with pytest.raises(InvalidModel, match=r"the inputs of operator 0 are tensors \[7\], the file has 2"):
        read_graphs(file.build(1))


def test_vectors_may_not_be_longer_than_the_file() -> None:
    content = bytearray(ADD.file())
    model = tflite.Model.GetRootAs(bytes(content))
    subgraphs = model._tab.Vector(model._tab.Offset(8)) - 4
    content[subgraphs : subgraphs + 4] = struct.pack("<I", 1)
    tensors = model.Subgraphs(0)._tab
    length = tensors.Vector(tensors.Offset(4)) - 4
    content[length : length + 4] = struct.pack("<I", 0x7FFFFFFF)
    with pytest.raises(InvalidModel, match="vectors are longer than the TFLite file"):
        read_graphs(bytes(content))


def refuses_or_imports(content: bytes) -> None:
    """Import a file that may be broken: it must be refused, or give a valid model."""
    try:
        imported = import_tflite(content)
    except FrontendError:
        return
    validate_model(imported.model)


@given(st.integers(0, len(VARIED) - 1))
@search(50)
def test_a_truncated_file_is_refused(length: int) -> None:
    refuses_or_imports(VARIED[:length])


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, len(VARIED) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@search(100)
def test_a_file_with_wrong_bytes_is_refused_or_a_valid_model(changes: list[tuple[int, int]]) -> None:
    content = bytearray(VARIED)
    for place, value in changes:
        content[place] = value
    refuses_or_imports(bytes(content))


WORDS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(VARIED), 0x7F800000, 0x7FC00000]


@pytest.mark.slow
@given(st.integers(0, len(VARIED) // 4 - 1), st.sampled_from(WORDS))
@search(100)
def test_a_file_with_a_wrong_word_is_refused_or_a_valid_model(place: int, word: int) -> None:
    content = bytearray(VARIED)
    struct.pack_into("<I", content, 4 * place, word)
    refuses_or_imports(bytes(content))
