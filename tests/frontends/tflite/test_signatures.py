"""Files with several entry points."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from nnhal_frontends import import_model
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.tflite import import_tflite
from tests.frontends.tflite_extension import run
from tests.support.drawn_values import random
from tests.support.signatures import two_signatures
from tests.support.tflite_files import Signature, TfliteFile, booleans, floats

A, B = random(2, 3), random(2, 3, seed=4)


def test_without_a_name_the_first_graph_is_imported_with_its_own_names() -> None:
    imported = import_tflite(two_signatures())
    assert [tensor.name for tensor in imported.inputs] == ["add_a:0", "add_b:0"]
    assert imported.signatures == ("magnitude", "serving_default")


@pytest.mark.parametrize(
    ("name", "inputs"), [("serving_default", {"a": A, "b": B}), ("magnitude", {"values": A})], ids=["first", "second"]
)
def test_a_signature_names_inputs_and_outputs(name: str, inputs: dict[str, np.ndarray]) -> None:
    content = two_signatures()
    imported = import_model(content, signature=name)
    expected = Interpreter(model_content=content).get_signature_runner(name)(**inputs)
    assert {tensor.name for tensor in imported.inputs} == inputs.keys()
    found = dict(zip([tensor.name for tensor in imported.outputs], run(imported, inputs), strict=True))
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values)


def test_an_output_may_have_the_name_of_an_input() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("ABS", [x], {"y": floats(2)})
    file.signatures.append(Signature("stream", {"state": x}, {"state": y}))
    imported = import_tflite(file.build(y), signature="stream")
    assert [tensor.name for tensor in (*imported.inputs, *imported.outputs)] == ["state", "state"]
    np.testing.assert_array_equal(run(imported, {"state": -A[0, :2]}), np.abs(A[:1, :2]))


def test_one_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidModel, match="no signature 'other', it has 'magnitude', 'serving_default'"):
        import_tflite(two_signatures(), signature="other")
    file = TfliteFile()
    x = file.input("x", floats(2))
    with pytest.raises(InvalidModel, match="no signature 'other', it has none"):
        import_tflite(file.build(x), signature="other")
    with pytest.raises(InvalidModel, match="signature 'x' of an ONNX model"):
        import_model(b"", signature="x")


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (Signature("s", {"x": 0}, {"y": 1}, 9), "signature 's' is of subgraph 9, the file has 1"),
        (Signature("s", {}, {"y": 1}), "names 0 inputs, expected each of its subgraph's 1 once"),
        (Signature("s", {"x": 0, "z": 0}, {"y": 1}), "names 2 inputs"),
        (Signature("s", {"x": 77}, {"y": 1}), "names 1 inputs"),
        (Signature("s", {"x": 0}, {}), "names outputs that its subgraph does not have"),
        (Signature("s", {"x": 0}, {"y": 55}), "names outputs that its subgraph does not have"),
    ],
)
def test_one_that_contradicts_its_subgraph_is_refused(signature: Signature, message: str) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("ABS", [x], {"y": floats(2)})
    file.signatures.append(signature)
    content = file.build(y)
    assert len(import_tflite(content).inputs) == 1
    with pytest.raises(InvalidModel, match=message):
        import_tflite(content, signature="s")


def test_a_subgraph_of_control_flow_is_no_entry_point() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("ABS", [x], {"y": floats(2)})
    branch = file.subgraph(y)
    file.signatures.append(Signature("branch", {"x": x}, {"y": y}, branch))
    which, x = file.input("which", booleans()), file.input("x", floats(2))
    options = ("IfOptions", {"ThenSubgraphIndex": branch, "ElseSubgraphIndex": branch})
    content = file.build(*file.operator("IF", [which, x], {"z": floats(2)}, options))
    with pytest.raises(InvalidModel, match="refers to the subgraph of a signature"):
        import_tflite(content, signature="branch")
