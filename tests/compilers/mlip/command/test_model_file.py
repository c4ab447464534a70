from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_frontends.errors import InvalidModel
from nnhal_mlip.command.calibration import graph_inputs
from nnhal_mlip.command.model_file import FlowPort, read_flow_model
from nnhal_mlip.command.simulation import execute, model_outputs
from nnhal_mlip.flow.errors import FlowError
from tests.support.mlip_flows import NoAccelerator, shared
from tests.support.mlip_onnx import write_digits
from tests.support.mlip_tflite import write_tflite
from tests.support.onnx_flow import as_devices_see_it
from tests.support.onnx_models import onnx_model


def test_ports_have_the_users_names(digits: Path) -> None:
    model = read_flow_model(digits)
    assert [(port.name, port.shape) for port in model.inputs] == [("image", (1, 1, 28, 28))]
    assert [(port.name, port.shape, port.element_type) for port in model.outputs] == [
        ("scores:0", (1, 10), np.dtype(np.float32))
    ]


def test_an_unknown_batch_is_fixed_by_a_shape(tmp_path: Path) -> None:
    path = write_digits(tmp_path / "any.onnx", "N")
    with pytest.raises(FlowError, match=r"input 'image'.*expected every dimension to be known"):
        read_flow_model(path)
    assert read_flow_model(path, {"image": (3, 1, 28, 28)}).outputs[0].shape == (3, 10)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(InvalidModel, match=r"text\.onnx"):
        read_flow_model(tmp_path / "text.onnx")
    with pytest.raises(FileNotFoundError):
        read_flow_model(tmp_path / "none.onnx")


def test_files_are_read_with_external_data(tmp_path: Path) -> None:
    nodes, weights = [helper.make_node("MatMul", ["x", "w"], ["y"])], np.ones((64, 32), np.float32)
    model = onnx_model(nodes, {"x": (2, 64)}, ["y"], {"w": weights})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    for public in (False, True):
        (port,) = read_flow_model(tmp_path / "m.onnx", public=public).outputs
        assert port.shape == (2, 32)


@pytest.mark.parametrize("kind", ["float", "int8", "uint8"])
def test_tflite_models_compute_in_their_own_types(kind: str, tmp_path: Path) -> None:
    path, sample, expected = write_tflite(tmp_path / "model.tflite", kind)
    model = read_flow_model(path)
    found = shared(model)
    outputs = model_outputs(model, found, execute(model, found, sample, NoAccelerator()))
    (name,) = outputs
    assert outputs[name].dtype == expected.dtype
    step = 1 if kind != "float" else 1e-5
    np.testing.assert_allclose(outputs[name].astype(np.float64), expected.astype(np.float64), atol=step)


def test_shapes_are_for_onnx_models_alone(tmp_path: Path) -> None:
    path, _, _ = write_tflite(tmp_path / "model.tflite", "float")
    with pytest.raises(ValueError, match="got --shape for a TFLite model"):
        read_flow_model(path, {"x": (1,)})


def test_arrays_become_real_numbers_and_back() -> None:
    port = FlowPort("x", "x", (3,), np.dtype(np.uint8), 0.5, 128)
    codes = np.array([0, 128, 255], np.uint8)
    np.testing.assert_array_equal(port.real(codes), np.array([-64, 0, 63.5], np.float32))
    np.testing.assert_array_equal(port.own(port.real(codes)), codes)
    assert port.own(np.array([1e9, -1e9, 0.24])).tolist() == [255, 0, 128]
    with pytest.raises(ValueError, match=r"input 'x': got shape \[2\], expected \[3\]"):
        port.real(codes[:2])
    with pytest.raises(ValueError, match="input 'x': got int8, expected uint8 or float32"):
        port.real(codes.astype(np.int8))


def test_a_sample_becomes_values_of_the_graph(digits: Path) -> None:
    model = read_flow_model(digits)
    image = np.ones((1, 1, 28, 28), np.float64)
    (value,) = graph_inputs(model, {"image": image}).values()
    assert value.dtype == np.float32


OWN_TABLES = [("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("HardSigmoid", {"alpha": 0.3}), ("HardSwish", {})]


@pytest.mark.parametrize(("op_type", "attributes"), OWN_TABLES)
def test_functions_of_onnx_are_tables_by_the_way_of_devices(op_type: str, attributes: dict[str, Any]) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["d"], name="dense"),
        helper.make_node(op_type, ["d"], ["y"], name="bent", **attributes),
    ]
    model = as_devices_see_it(onnx_model(nodes, {"x": (2, 4)}, ["y"], {"w": np.ones((4, 3), np.float32)}))
    found = shared(model)
    (layer,) = found.subgraphs[0].kernels
    assert (layer.user_names, len(layer.nodes), found.host) == (("dense", "bent"), 2, ())


def test_names_of_nodes_and_values_are_those_of_the_model(digits: Path) -> None:
    graph = read_flow_model(digits).graph
    convolved = next(node for node in graph.nodes if node.operator == "relu")
    assert convolved.output == "relu1:0"
    assert [(source.number, source.name, source.kind) for source in convolved.sources] == [(1, "relu1", "Relu")]
