from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.constants_file import constants_schema
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.nodes_file import nodes_schema
from nnhal_mlip.flow.files.subgraph_files import parse, read_files, to_text
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_subgraphs import cut, described, random_graph, worked_graph

Change = Callable[[Any], object]


def changed(folder: Path, nodes: Change | None = None, constants: Change | None = None) -> tuple[Path, Path]:
    """Write the worked example with changes; return the paths."""
    paths = described(worked_graph()).write(folder)
    for path, change in zip(paths, (nodes, constants), strict=True):
        if change:
            content = json.loads(path.read_text())
            change(content)
            path.write_text(json.dumps(content))
    return paths


def without_extension(value: Any) -> None:
    """Drop all that the upstream form does not have."""
    if isinstance(value, dict):
        value.pop("nnhal", None)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        without_extension(each)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_is_read(seed: int, tmp_path: Path) -> None:
    partition = cut(random_graph(seed))
    assert partition.subgraphs
    for subgraph in partition.subgraphs:
        files = describe(partition, subgraph)
        nodes, constants = files.write(tmp_path)
        assert (nodes.name, constants.name) == (f"{subgraph.symbol}-nodes.json", f"{subgraph.symbol}-consts.json")
        jsonschema_rs.validate(nodes_schema(), json.loads(nodes.read_text()))
        jsonschema_rs.validate(constants_schema(), json.loads(constants.read_text()))
        assert read_files(nodes, constants) == files


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_the_constants_of_the_files_are_those_of_the_graph(seed: int, tmp_path: Path) -> None:
    partition = cut(random_graph(seed))
    for subgraph in partition.subgraphs:
        files = read_files(*describe(partition, subgraph).write(tmp_path))
        for name, entry in files.constants.entries.items():
            assert entry.nnhal
            held = files.constants.array(name)
            np.testing.assert_array_equal(held.ravel(), partition.graph.constants[entry.nnhal.value].ravel())


def test_two_descriptions_are_the_same_bytes(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
        described(worked_graph()).write(folder)
    one, two = ([path.read_bytes() for path in sorted(folder.iterdir())] for folder in folders)
    assert one == two
    assert len(one) == 2


def test_written_files_replace_older_ones_whole(tmp_path: Path) -> None:
    files = described(worked_graph())
    for path in files.write(tmp_path):
        path.write_text("of an earlier run")
    paths = files.write(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert read_files(*paths) == files


def test_files_of_tvm_alone_are_read(tmp_path: Path) -> None:
    files = read_files(*changed(tmp_path, without_extension, without_extension))
    assert [node.layer for node in files.nodes.kernels] == ["layout_transform", "Conv2D", "Maxpool2D", "FC"]
    assert files.nodes.kernels[1].user_name == "tvmgen_mrvl_main_1"
    assert files.constants.array("tvmgen_mrvl_main_1_const_1").tolist() == [[[[0.5, -0.25, 0, 1]]]]


def test_a_layer_that_tvm_does_not_have_needs_the_extension(tmp_path: Path) -> None:
    g = GraphOf("NHWC")
    nodes, constants = described(g.build(g.relu(g.input(1, 4, 4, 2)))).write(tmp_path)
    content = json.loads(nodes.read_text())
    without_extension(content)
    nodes.write_text(json.dumps(content))
    with pytest.raises(FlowFilesError, match=r"tvmgen_mrvl_main_0.*Activation.*expected an extension nnhal"):
        read_files(nodes, constants)


def test_a_name_with_a_bar_does_no_harm(tmp_path: Path) -> None:
    g = GraphOf("NHWC")
    files = described(g.build(g.conv(g.input(1, 4, 4, 2, name="a|b"), 2, name="c|d")))
    assert read_files(*files.write(tmp_path)) == files


def put(path: str, value: object) -> Change:
    """Return a change of one value, at a path of keys and numbers."""

    def change(content: Any) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        for step in steps:
            content = content[step]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nnhal/schema", 2, "nnhal.schema: Input should be 1"),
        ("nodes/2/inputs/0/0", 3, "layer 'first, first_bias, first_relu' (Conv2D): got an edge from node 3"),
        ("nodes/2/inputs/0/0", 2, "an edge from node 2, while it is node 2"),
        ("nodes/2/inputs/0/1", 1, "an edge from result 1 of node 1, expected its only result, 0"),
        ("nodes/2/inputs/0/0", "1", "node 'first, first_bias, first_relu'"),
        ("heads", [[5, 0, 0]], "head [5, 0, 0]"),
        ("heads", [[0, 0, 0]], "head [0, 0, 0]"),
        ("heads", [], "num_subgraph_outputs 1, expected 0"),
        ("arg_nodes", [1], "arg_nodes [1], expected [0]"),
        ("batch_size", "2", "batch_size 2, expected 1"),
        ("batch_size", 1, "batch_size: got 1, expected an integer as a string"),
        ("symbol", "../up", "symbol"),
        ("attrs/shape/1", [[1, 2, 4, 4]], "1 entries in attrs.shape, expected 5"),
        ("attrs/dltype/1/2", "int8", "attrs.dltype[2] int8, expected float32"),
        ("nodes/2/name", "tvmgen_mrvl_main_0", "name tvmgen_mrvl_main_0, which"),
        ("nodes/2/attrs/strides", ["1", 1], "expected a list of strings"),
        (
            "nodes/2/attrs/strides",
            ["1", "x"],
            "'first, first_bias, first_relu': attrs.strides: got 'x', expected an integer",
        ),
        ("nodes/2/attrs/strides", ["0", "1"], "expected 2 integers of at least 1"),
        ("nodes/2/attrs/strides", ["2", "2"], "expected [1, 2, 2, 4], which its inputs make"),
        ("nodes/2/attrs/padding", ["1", "1", "1"], "expected 4 integers"),
        ("nodes/2/attrs/groups", ["2"], "2 groups"),
        ("nodes/2/attrs/layer_name", ["Conv3D"], "layer_name is ['Conv3D'], expected a list of one of Conv2D, FC"),
        ("nodes/2/attrs/layer_name", ["FC"], "'first, first_bias, first_relu'"),
        ("nodes/2/attrs/spare", ["1"], "spare: Extra inputs are not permitted"),
        ("nodes/2/attrs/func_node_name", ["other"], "func_node_name other, expected tvmgen_mrvl_main_0"),
        ("nodes/2/attrs/mrvl_nodes_idx", [3], "mrvl_nodes_idx 3, expected 2"),
        ("nodes/2/attrs/num_inputs", "2", "num_inputs 2, expected 3"),
        ("nodes/2/attrs/activation_type", ["softmax"], "activation_type softmax, expected relu, clip or one of"),
        ("nodes/2/attrs/activation_type", ["clip"], "nnhal.clip None, expected a range with clip, and only then"),
        (
            "nodes/2/attrs/data_layout_shape",
            ["1", "4", "4", "1"],
            "data_layout_shape [1, 4, 4, 1], expected [1, 4, 4, 2]",
        ),
        ("nodes/2/attrs/data_layout", ["NCHW"], "layouts NCHW and OHWI, expected NHWC and OHWI"),
        ("nodes/2/attrs/kernel_const", {}, "num_inputs 3, expected 2"),
        ("nodes/2/attrs/kernel_const_name", ["w"], "expected the same name"),
        (
            "nodes/2/attrs/kernel_const/shape",
            [4, 3, 3, 1],
            "shape (4, 3, 3, 1) of constant 'tvmgen_mrvl_main_1_const_0'",
        ),
        ("nodes/2/attrs/kernel_const/dtype", "int8", "dtype int8 of constant"),
        ("nodes/2/attrs/kernel_const/min", "-1", "min -1 of constant"),
        ("nodes/2/attrs/data_layout_shape_1", ["1"], "data_layout_shape_<i> has the numbers [1]"),
        ("nodes/1/attrs/dst_layout", ["NHWX"], "layouts with the same letters"),
        (
            "nodes/3/attrs/ceil_mode",
            ["yes"],
            "node 'pooled': attrs.ceil_mode: got 'yes', expected 0 or 1",
        ),
        ("nodes/3/attrs/kernel_layout_shape", ["2", "3"], "kernel_layout_shape [2, 3], expected [2, 2] as pool_size"),
        ("nodes/4/attrs/units", ["x"], "node 'flat, scores'"),
        ("nodes/4/attrs/units", ["4"], "units 4, expected 3"),
        ("nodes/4/attrs/weights_need_transform", ["no"], "weights_need_transform no, expected yes"),
        ("nodes/0/op", "output", "node 'x'"),
        ("nodes/0/input_id", ["1"], "input 'x': got input_id 1, expected 0"),
        ("nodes/0/attrs/shape", [[1, 2, 4, 0]], "node 'x': attrs.shape"),
        ("nodes/0/attrs/nnhal/scales", [0.5, 0.5], "input 'x': got 2 scales along axis None of shape [1, 2, 4, 4]"),
        ("nodes/0/attrs/nnhal/scales", [0], "node 'x': attrs.nnhal.scales.0: Input should be greater than 0"),
        ("nnhal", None, "input 'x': got an extension nnhal, expected one at the top"),
        ("nodes", [], "0 inputs of 0 nodes"),
        ("nodes/4", 7, "node '4'"),
    ],
)
def test_nodes_that_are_damaged_are_refused_by_the_users_name(
    path: str, value: object, message: str, tmp_path: Path
) -> None:
    paths = changed(tmp_path, put(path, value))
    with pytest.raises(FlowFilesError, match=re.escape(message)) as error:
        read_files(*paths)
    assert str(paths[0]) in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("data_base64", "AAAAPwAAgL4=", "data_base64 holds 8 bytes, expected 16 for shape [1, 1, 1, 4] of float32"),
        ("data_base64", "AAAAPwAAgL4AAAAAAACAPw", "data_base64 is no base64"),
        ("data_base64", "AAAAPwAAgL4AAAAA\nAACAPw==", "data_base64 is no base64"),
        ("dtype", "float16", "data_base64 holds 16 bytes, expected 8"),
        ("dtype", "float33", "dtype"),
        ("shape", [1, 1, 4], "shape (1, 1, 1, 4) of constant 'tvmgen_mrvl_main_1_const_1'"),
        ("shape", [1, 1, 1, True], "shape"),
        ("min", "-1", "got min '-1' and max '1', expected -0.25 and 1"),
        ("max", "high", "got min '-0.25' and max 'high'"),
        ("nnhal/scales", [1.0, 2.0], "2 scales along axis None"),
    ],
)
def test_constants_that_are_damaged_are_refused_by_their_name(
    path: str, value: object, message: str, tmp_path: Path
) -> None:
    paths = changed(tmp_path, constants=put(f"tvmgen_mrvl_main_1_const_1/{path}", value))
    with pytest.raises(FlowFilesError, match=re.escape(message)) as error:
        read_files(*paths)
    assert "tvmgen_mrvl_main_1_const_1" in str(error.value)


def test_a_constant_that_is_missing_is_named_with_its_layer(tmp_path: Path) -> None:
    paths = changed(tmp_path, constants=lambda content: content.pop("tvmgen_mrvl_main_3_const_0"))
    with pytest.raises(FlowFilesError, match=r"layer 'flat, scores' \(FC\): got constant 'tvmgen_mrvl_main_3_const_0'"):
        read_files(*paths)


def test_a_constant_that_no_layer_reads_is_refused(tmp_path: Path) -> None:
    paths = changed(tmp_path, constants=lambda content: content.update(spare=content["tvmgen_mrvl_main_3_const_0"]))
    with pytest.raises(FlowFilesError, match="constant 'spare'"):
        read_files(*paths)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"symbol": 1, "symbol": 2}', "[" * 100_000, "\ud800"])
def test_what_is_no_file_of_a_subgraph_is_refused(text: str, tmp_path: Path) -> None:
    nodes, constants = described(worked_graph()).write(tmp_path)
    nodes.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FlowFilesError, match=re.escape(str(nodes))):
        read_files(nodes, constants)


def test_files_that_are_not_there_are_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_files(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_value_that_is_swapped_is_refused_or_read_but_never_breaks(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    nodes, constants = described(random_graph(seed)).write(tmp_path)
    whole = json.loads(nodes.read_text())
    for _ in range(60):
        content = json.loads(json.dumps(whole))
        _swap(content, random)
        nodes.write_text(json.dumps(content))
        try:
            files = read_files(nodes, constants)
        except FlowFilesError:
            continue
        files.check()


def _swap(content: Any, random: np.random.Generator) -> None:
    """Replace a value anywhere in JSON by one of another kind or size."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = keys[int(random.integers(len(keys)))]
        inner = content[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.9:
            content = inner
            continue
        others: list[Any] = [None, -1, 10**30, "", "9", "x", [], ["7"], ["a", "b"], [[1]], {}, {"a": 1}, 1.5, True]
        content[key] = others[int(random.integers(len(others)))]
        return


def test_objects_have_a_line_for_each_member_and_lists_are_whole() -> None:
    value = {"a": ["1", "2"], "b": {}, "c": [{"d": [[1, 2]]}, {"e": 'x"y'}], "f": []}
    text = to_text(value)
    assert json.loads(text) == parse(text) == value
    assert text.splitlines()[:3] == ["{", ' "a": ["1", "2"],', ' "b": {},']
    assert '   "d": [[1, 2]]' in text.splitlines()


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="key 'b' is there twice"):
        parse('{"a": {"b": 1, "c": 2, "b": 3}}')
