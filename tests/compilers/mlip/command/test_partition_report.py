from __future__ import annotations

from pathlib import Path

from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.partition_report import PartitionReport, partition_report
from nnhal_mlip.command.rendering import show_partition
from nnhal_mlip.command.sharing import SharingChoices
from tests.support.consoles import printed
from tests.support.mlip_flows import shared
from tests.support.mlip_onnx import OnnxNetwork
from tests.support.mlip_tflite import write_tflite


def told(path: Path, choices: SharingChoices | None = None) -> PartitionReport:
    choices = choices or SharingChoices()
    model = read_flow_model(path, public=choices.public)
    return partition_report(model, shared(model, choices), choices)


def text(story: PartitionReport, explain: bool) -> str:
    return printed(lambda console: show_partition(story, explain, console))


def test_layers_have_the_users_names(digits: Path) -> None:
    story = told(digits)
    (subgraph,) = story.subgraphs
    assert [(kernel.layer, kernel.user_names) for kernel in subgraph.kernels] == [
        ("layout_transform", ()),
        ("Conv2D", ("conv1", "relu1")),
        ("Maxpool2D", ("pool1",)),
        ("Conv2D", ("conv2", "relu2")),
        ("Maxpool2D", ("pool2",)),
        ("FC", ("flatten", "classifier")),
    ]
    assert story.layers == 6
    assert story.steps == ("tvmgen_mrvl_main_0", "scores")


def test_what_stays_on_the_host_has_a_reason(digits: Path) -> None:
    (softmax,) = told(digits).host
    assert (softmax.name, softmax.kind, softmax.operator, softmax.added) == ("scores", "Softmax", "softmax", False)
    assert softmax.reason.startswith(
        "got a softmax whose result leaves the model, expected one that a later layer reads"
    )


def test_a_reverted_subgraph_is_told_by_the_users_names(tmp_path: Path) -> None:
    net = OnnxNetwork()
    pooled = net.node("MaxPool", ["x"], "alone", kernel_shape=[2, 2])
    story = told(net.write(tmp_path / "pool.onnx", {"x": (1, 4, 8, 8)}, [pooled]), SharingChoices(public=True))
    assert not story.subgraphs
    (reversion,) = story.reversions
    assert "alone" in reversion.nodes
    assert reversion.reason == "it has neither a convolution nor a dense layer"


def test_operations_that_cannot_be_imported_have_the_importers_reason(tmp_path: Path) -> None:
    path, _, _ = write_tflite(tmp_path / "model.tflite", "int8")
    (host,) = told(path).host
    assert (host.kind, host.check, host.code) == ("TANH", "import", "QUANT")


def test_an_explanation_shows_layers_reasons_and_order(digits: Path) -> None:
    story = told(digits)
    brief, whole = text(story, False), text(story, True)
    assert "host: scores; --explain says why" in brief
    assert "flatten + classifier" in whole
    assert "REVERTED: got a softmax whose result leaves the model" in whole
    assert "order: tvmgen_mrvl_main_0, scores" in whole
    assert story.rule in whole
