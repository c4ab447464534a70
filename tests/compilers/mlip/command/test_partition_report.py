from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.partition_report import Told, partition_report, rule
from nnhal_mlip.command.rendering import partition_parts
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.flow_partition import FlowOptions
from tests.support.consoles import printed_parts
from tests.support.mlip_flows import shared
from tests.support.mlip_onnx import OnnxNetwork
from tests.support.mlip_tflite import write_tflite


def told(path: Path, choices: FlowOptions | None = None) -> Told:
    choices = choices or FlowOptions()
    model = read_flow_model(path, public=not choices.beyond_public)
    return partition_report(model, shared(model, choices), choices)


def test_layers_have_the_users_names(digits: Path) -> None:
    story = told(digits)
    (subgraph,) = story["subgraphs"]
    assert [(kernel["layer"], kernel["user_names"]) for kernel in subgraph["kernels"]] == [
        ("layout_transform", ()),
        ("Conv2D", ("conv1", "relu1")),
        ("Maxpool2D", ("pool1",)),
        ("Conv2D", ("conv2", "relu2")),
        ("Maxpool2D", ("pool2",)),
        ("FC", ("flatten", "classifier")),
    ]
    assert story["steps"] == ["tvmgen_mrvl_main_0", "scores"]


def test_what_stays_on_the_host_has_a_reason(digits: Path) -> None:
    (softmax,) = told(digits)["host"]
    assert [softmax[key] for key in ("name", "kind", "operator", "added")] == ["scores", "Softmax", "softmax", False]
    assert softmax["got"] == "a softmax whose result leaves the model"
    assert softmax["allowed"].startswith("one that a later layer reads")


def test_a_reverted_subgraph_is_told_by_the_users_names(tmp_path: Path) -> None:
    net = OnnxNetwork()
    pooled = net.node("MaxPool", ["x"], "alone", kernel_shape=[2, 2])
    story = told(net.write(tmp_path / "pool.onnx", {"x": (1, 4, 8, 8)}, [pooled]), FlowOptions(beyond_public=False))
    assert not story["subgraphs"]
    (reversion,) = story["reversions"]
    assert "alone" in reversion["nodes"]
    assert reversion["reason"] == "it has neither a convolution nor a dense layer"


def test_operations_that_cannot_be_imported_have_the_importers_reason(tmp_path: Path) -> None:
    path, _, _ = write_tflite(tmp_path / "model.tflite", "int8")
    (host,) = told(path)["host"]
    assert (host["kind"], host["check"], host["code"]) == ("TANH", "import", "QUANT")


def test_an_explanation_shows_layers_reasons_and_order(digits: Path) -> None:
    story = told(digits)
    brief, whole = (printed_parts(partition_parts(story, explain)) for explain in (False, True))
    assert "host: scores; --explain says why" in brief
    assert "flatten + classifier" in whole
    assert "REVERTED: got a softmax whose result leaves the model" in whole
    assert "order: tvmgen_mrvl_main_0, scores" in whole
    assert story["rule"] in whole


def test_the_first_layers_are_kept(digits: Path) -> None:
    (subgraph,) = told(digits, FlowOptions(keep=3))["subgraphs"]
    assert [kernel["user_names"] for kernel in subgraph["kernels"] if kernel["user_names"]] == [
        ("conv1", "relu1"),
        ("pool1",),
    ]


def test_an_unknown_node_is_refused_with_those_there_are(digits: Path) -> None:
    with pytest.raises(FlowError, match="got 'conv9', expected names of nodes of the model: conv1, relu1"):
        told(digits, FlowOptions(to_host=("conv9",)))


def test_the_rule_says_which_flow_it_is_of() -> None:
    assert "of the public flow" in rule(FlowOptions(beyond_public=False))
    assert "modelled time" in rule(FlowOptions())
