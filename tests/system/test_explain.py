"""``nnhal explain``: as an object, as a page, as tables; and its agreement with a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_client import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.command import nnhal, nnhal_on_terminal
from tests.support.html import parsed
from tests.support.onnx_models import onnx_model, random
from tests.support.testbeds import framework_over

DEVICES = ("gpu_acc", "ethos_n", "cpu_acc", "cpu_ref")


def network(directory: Path) -> Path:
    """Three operations on floats, which the NPU lacks; one name has characters of HTML."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Tanh", ["a"], ["b<&>"], name="middle"),
        helper.make_node("Sigmoid", ["b<&>"], ["y"], name="last"),
    ]
    path = directory / "network.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 5, 5, 3]}, ["y"]), path)
    return path


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    with framework_over(*(DeviceEntry(driver=name) for name in DEVICES)) as session:
        yield session


def test_the_command_tells_one_story_as_json_and_as_a_page(tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    devices = ["--devices", "ethos_n,gpu_acc,cpu_acc", "--pin", "name:middle=gpu_acc", "--pin", "op:RELU=cpu_acc"]
    done = nnhal("explain", str(network(tmp_path)), *devices, "--runs", "2", "--json", "--html", str(html))
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert [operation["operation"] for operation in story["operations"]] == ["RELU", "TANH", "LOGISTIC"]
    assert [operation["device"] for operation in story["operations"]][:2] == ["cpu_acc", "gpu_acc"]
    assert story["measured"]["runs"] == 2
    assert len(story["measured"]["step_device_ns"]) == len(story["steps"])
    assert 0 < story["fallback_bytes_unaligned"] <= story["fallback_bytes"]

    page = parsed(html.read_text())
    assert len(page.having("step")) == len(page.having("open-step")) == len(story["steps"])
    assert len(page.having("panel")) == len(story["operations"])
    (edges,) = page.having("edges")
    assert edges.text.count("ashmem") >= len(story["edges"])
    pins = [operation["pin"] for operation in story["operations"]]
    assert pins[:2] == ["op:RELU", "name:middle"] and all(pin in page.text for pin in pins)
    assert story["operations"][1]["inputs"] == story["operations"][0]["outputs"]
    assert "b<&>" not in html.read_text()
    for operation in story["operations"]:
        for reason in operation["refusals"].values():
            assert reason in page.text


def test_the_command_shows_tables(tmp_path: Path) -> None:
    done = nnhal("explain", str(network(tmp_path)), "--devices", "gpu_acc,cpu_acc", "--runs", "0", "--all")
    assert done.returncode == 0, done.stderr
    for title in ("Operations", "Edges", "Steps"):
        assert title in done.stdout
    for told in ("first", "middle", "last", "B between steps", "without alignment", "all on cpu_acc would be"):
        assert told in " ".join(done.stdout.split())
    assert "measured" not in done.stdout.replace("its times are measured", "")


def open_network(directory: Path, length: int = 4) -> Path:
    """A product over an open batch and an open length, of which the weights take one and no other."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Tanh", ["p"], ["y"], name="last"),
    ]
    path = directory / "open.onnx"
    shapes = {"x": ["batch", "length"]}
    onnx.save(onnx_model(nodes, shapes, ["y"], {"w": np.ones((length, 2), np.float32)}), path)
    return path


def test_a_run_that_fails_leaves_the_explanation_and_times_of_open_dimensions_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "never.onnx"
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    onnx.save(onnx_model([node], {"x": ["length"]}, ["y"], {"shape": np.array([-1, 9_999_991])}), path)
    done = nnhal("explain", str(path), "--devices", "cpu_acc", "--runs", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 operation in 1 step: 1 on cpu_acc")
    assert len(lines) <= 11
    assert "modelled unknown" in lines
    (failure,) = [line for line in lines if line.startswith("not measured: ")]
    assert "the model ran with none of " in failure and "RESHAPE" in failure
    assert "open dimensions: x [length]: costs count each as 1 unless --shape or --dim fixes it" in lines


def test_open_dimensions_get_lengths_that_the_model_runs_with_and_a_plan_for_these(tmp_path: Path) -> None:
    done = nnhal("explain", str(open_network(tmp_path, 37)), "--devices", "gpu_acc,cpu_acc", "--runs", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any("measured: " in line and "not measured" not in line for line in lines)
    (told,) = [line for line in lines if line.startswith("it ran with ")]
    assert told.startswith("it ran with --shape x:1x37, for which the plan is: 2 operations in 1 step: 2 on cpu_acc; ")
    assert "all on gpu_acc would be " in told and "unknown" not in told


def test_dimensions_that_are_fixed_by_name_have_times(tmp_path: Path) -> None:
    fixed = ("--dim", "batch=3", "--dim", "length=4")
    done = nnhal("explain", str(open_network(tmp_path)), "--devices", "cpu_acc", *fixed, "--runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert story["client_bytes"] == 4 * (3 * 4 + 3 * 2)
    assert story["modelled_ns"] > 0 and story["measured"]["runs"] == 1 and story["not_measured"] == ""


LONG = "/".join(f"layer_{number}" for number in range(30)) + "[0]"


def long_names(directory: Path) -> Path:
    """One operation whose node and values have names that no terminal has room for."""
    path = directory / "long.onnx"
    onnx.save(
        onnx_model(
            [helper.make_node("Tanh", [f"{LONG}/x"], [f"{LONG}/y"], name=LONG)], {f"{LONG}/x": [4]}, [f"{LONG}/y"]
        ),
        path,
    )
    return path


def test_tables_in_a_pipe_keep_whole_names_and_rows_of_one_line(tmp_path: Path) -> None:
    done = nnhal("explain", str(long_names(tmp_path)), "--devices", "ethos_n,cpu_acc", "--runs", "1", "--all")
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if "TANH" in line and "│" in line]
    assert [cell.strip() for cell in row.split("│")[1:4]] == [LONG, "TANH", "cpu_acc"]
    for name in (f"{LONG}/x", f"{LONG}/y"):
        assert len([line for line in done.stdout.splitlines() if f"│ {name}" in line]) == 2  # edges and ledger
    assert "TENSOR_FLOAT32, allowed" in done.stdout


@pytest.mark.parametrize("columns", [80, 100])
def test_tables_on_a_terminal_fit_it_and_shorten_names_in_the_middle(tmp_path: Path, columns: int) -> None:
    arguments = ("explain", str(long_names(tmp_path)), "--devices", "ethos_n,cpu_acc", "--runs", "1", "--all")
    status, printed = nnhal_on_terminal(columns, *arguments)
    assert status == 0, printed
    assert max(len(line) for line in printed.splitlines()) == columns
    (row,) = [line for line in printed.splitlines() if "TANH" in line and "│" in line]
    name, operation, device = (cell.strip() for cell in row.split("│")[1:4])
    assert (operation, device) == ("TANH", "cpu_acc")
    head, tail = name.split("…")
    assert LONG.startswith(head) and LONG.endswith(tail) and min(len(head), len(tail)) > 3


def test_measured_runs_have_a_ledger_and_a_timeline(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    pins = [f"--pin=name:{name}" for name in ("first=cpu_acc", "middle=gpu_acc", "last=cpu_acc")]
    options = ["--devices", "gpu_acc,cpu_acc", *pins, "--runs", "3", "--trace", str(trace), "--json"]
    done = nnhal("explain", str(network(tmp_path)), *options)
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    copied = [(edge["value"], edge["copied_bytes"]) for edge in story["edges"]]
    assert [(entry["value"], entry["copied_bytes"]) for entry in story["measured"]["ledger"]] == copied
    spans = [event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert [name for name in spans if name.startswith("run")] == [f"run network {n}" for n in (0, 0, 1, 1, 2, 2)]
    assert len([name for name in spans if name.startswith("step")]) == 3 * len(story["steps"])


def test_a_timeline_needs_runs(tmp_path: Path) -> None:
    done = nnhal("explain", str(network(tmp_path)), "--runs", "0", "--trace", str(tmp_path / "trace.json"))
    assert done.returncode == 1
    assert "nnhal: --trace needs runs: got --runs 0" in done.stderr


def test_a_driver_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = nnhal("explain", str(network(tmp_path)), "--devices", "cpu_acc,abacus")
    assert done.returncode == 1
    assert "abacus" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_story_agrees_with_the_placements_and_with_a_run(framework: Framework, tmp_path: Path) -> None:
    pins = {"name:first": "cpu_acc", "name:middle": "gpu_acc", "name:last": "cpu_ref"}
    model = framework.load(network(tmp_path), pins=pins)
    explanation = model.explain()
    told = [(o.nodes, o.operation, o.device, o.step) for o in explanation.operations]
    assert told == [(p.nodes, p.operation, p.device, p.step) for p in model.placements]
    assert tuple(step.device for step in explanation.steps) == model.steps
    assert explanation.fallback_bytes == model.arena_bytes
    _, report = model.run_with_report({"x": random(1, 5, 5, 3)})
    assert [step.device for step in report.steps] == list(model.steps)
    assert sum(step.copied_bytes for step in report.steps) == explanation.copied_bytes == 0
    assert explanation.client_bytes == 2 * 75 * 4
    model.unload()


def test_what_the_client_lays_out_as_its_device_takes_it_is_copied_neither_by_plan_nor_in_the_run(
    framework: Framework, tmp_path: Path
) -> None:
    model = framework.load(_integers(tmp_path), devices=["ethos_n", "cpu_ref"], pins={"op:RELU": "ethos_n"})
    explanation = model.explain()
    image = np.random.default_rng(3).integers(-9, 9, (1, 8, 8, 3)).astype(np.int8)
    outputs, report = model.run_with_report({"x": image})
    np.testing.assert_array_equal(outputs["y"], np.maximum(image, 0))
    copied = {(edge.source, edge.destination): edge.copied_bytes for edge in explanation.edges}
    assert copied == {("client", "ethos_n"): 0, ("ethos_n", "client"): 0}
    assert sum(step.copied_bytes for step in report.steps) == explanation.copied_bytes == 0
    assert {edge.memory for edge in explanation.edges} == {model.memory.kind} == {"hardware_buffer_blob"}
    model.unload()


def test_every_other_device_says_in_one_sentence_why_it_refuses(framework: Framework, tmp_path: Path) -> None:
    model = framework.load(network(tmp_path))
    for operation in model.explain().operations:
        assert operation.device not in operation.refusals
        assert set(operation.refusals) == {"ethos_n"}
        reason = operation.refusals["ethos_n"]
        code, rest = reason.split(": ", 1)
        assert code.isupper()
        assert "got" in rest
        assert "allowed" in rest
        assert "\n" not in reason
    model.unload()


def _integers(directory: Path) -> Path:
    path = directory / "integers.onnx"
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["r"]),
        helper.make_node("Relu", ["r"], ["s"], name="relu"),
        helper.make_node("QuantizeLinear", ["s", "scale", "zero"], ["y"]),
    ]
    constants = {"scale": np.float32(0.5), "zero": np.int8(0)}
    onnx.save(onnx_model(nodes, {"x": [1, 8, 8, 3]}, ["y"], constants, element_type=np.int8), path)
    return path
