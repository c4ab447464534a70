"""``nnhal run``: one inference, and errors of one line."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal_tools.cli import main
from tests.support.command import nnhal
from tests.support.onnx_models import onnx_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(a + b) over 2 x 3 floats."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], name="add"),
        helper.make_node("Softmax", ["sum"], ["y"], name="top", axis=1),
    ]
    path = tmp_path / "model.onnx"
    onnx.save(onnx_model(nodes, {"a": [2, 3], "b": [2, 3]}, ["y"]), path)
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, dict[str, Array]]:
    random = np.random.default_rng(7)
    arrays = {name: random.standard_normal((2, 3)).astype(np.float32) for name in ("a", "b")}
    path = tmp_path / "inputs.npz"
    np.savez(path, a=arrays["a"], b=arrays["b"])
    return path, arrays


def test_outputs_are_those_of_onnx_runtime(
    model: Path,
    inputs: tuple[Path, dict[str, Array]],
    tmp_path: Path,
) -> None:
    path, arrays = inputs
    saved = tmp_path / "outputs.npz"
    done = nnhal("run", str(model), "--input", str(path), "--output", str(saved), "--pin", "op:SOFTMAX=cpu_ref")
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime.InferenceSession(model).run(["y"], arrays)
    with np.load(saved) as outputs:
        np.testing.assert_allclose(outputs["y"], np.asarray(expected), atol=1e-6)
    assert "cpu_ref" in done.stdout


def test_json_has_outputs_placements_and_times(
    model: Path,
    inputs: tuple[Path, dict[str, Array]],
) -> None:
    done = nnhal("run", str(model), "-i", str(inputs[0]), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert np.array(result["outputs"]["y"]).shape == (2, 3)
    assert [placement["nodes"] for placement in result["placements"]] == [["add"], ["top"]]
    assert all(step["copied_bytes"] == 0 for step in result["steps"])


def test_the_ledger_is_a_table_and_in_json(model: Path, inputs: tuple[Path, dict[str, Array]]) -> None:
    given = (str(model), "-i", str(inputs[0]), "--pin", "op:SOFTMAX=cpu_ref", "--pin", "op:ADD=cpu_acc")
    shown = nnhal("run", *given, "--ledger")
    assert shown.returncode == 0, shown.stderr
    assert "copied in all: 0 B" in shown.stdout
    assert "copied in all" not in nnhal("run", *given).stdout
    ledger = json.loads(nnhal("run", *given, "--json").stdout)["ledger"]
    assert [(entry["value"], entry["source"], entry["destination"]) for entry in ledger] == [
        ("a", "", "cpu_acc"),
        ("b", "", "cpu_acc"),
        ("sum", "cpu_acc", "cpu_ref"),
        ("y", "cpu_ref", ""),
    ]
    assert all(entry["copied_bytes"] == 0 and entry["strategy"] == "ExportToTarget" for entry in ledger)


def test_a_trace_has_a_row_for_each_process(model: Path, inputs: tuple[Path, dict[str, Array]], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    pins = ("--pin", "op:SOFTMAX=cpu_ref", "--pin", "op:ADD=cpu_acc")
    done = nnhal("run", str(model), "-i", str(inputs[0]), *pins, "--trace", str(path))
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    rows = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert rows == ["client", "framework", "cpu_acc", "cpu_ref"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["run model", "run model", "step 0", "step 1"]


def test_a_missing_file_is_one_line_with_a_hint(tmp_path: Path) -> None:
    done = nnhal("run", str(tmp_path / "none.onnx"), "-i", str(tmp_path / "none.npz"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "hint:" in done.stderr


def test_files_and_names_are_checked_before_anything_starts(
    model: Path, inputs: tuple[Path, dict[str, Array]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr("nnhal_tools.cli.run.ephemeral_framework", start)
    given, text = str(inputs[0]), tmp_path / "text.npy"
    text.write_text("no array")
    single = tmp_path / "a.npy"
    np.save(single, inputs[1]["a"])
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, a=np.zeros((2, 2), np.float32), b=np.zeros((2, 3), np.float32))
    doubles = tmp_path / "doubles.npz"
    np.savez(doubles, a=np.zeros((2, 3)), b=np.zeros((2, 3), np.float32))
    for arguments, words in (
        ([str(tmp_path / "none.onnx"), "-i", given], "none.onnx: No such file"),
        ([given, "-i", given], "neither an ONNX nor a TFLite model"),
        ([str(model), "-i", str(tmp_path / "none.npz")], "none.npz: No such file"),
        ([str(model), "-i", str(text)], "expected arrays in .npy or .npz, as numpy saves it"),
        ([str(model), "-i", str(single)], "the model has inputs ['a', 'b']: use NAME=FILE"),
        ([str(model), "-i", f"a={single}", "-i", f"c={single}"], "got inputs ['a', 'c'], expected ['a', 'b']"),
        ([str(model), "-i", str(wrong)], "input 'a' is float32 [2, 2], expected float32 [2, 3]"),
        ([str(model), "-i", str(doubles)], "input 'a' is float64 [2, 3], expected float32 [2, 3]"),
        ([str(model), "-i", given, "--pin", "op:SOFTMAX=gpu"], "no device 'gpu'; there are cpu_acc, cpu_ref"),
        ([str(model), "-i", given, "--pin", "op:SOFTMX=cpu_ref"], "pin 'op:SOFTMX': the HAL has no operation SOFTMX"),
        ([str(model), "-i", given, "--pin", "name:zz*=cpu_ref"], "pin 'name:zz*' matches no node of the model; there"),
        ([str(model), "-i", given, "--pin", "SOFTMAX=cpu_ref"], "expected name:GLOB=DEVICE, op:TYPE=DEVICE"),
        ([str(model), "-i", given, "--output", str(tmp_path / "no" / "out.npz")], "No such file or directory"),
        ([str(model), "-i", given, "--dim", "batch=2"], "--dim: got batch, the model has no open dimension with a"),
        ([str(model), "-i", given, "--shape", "c:2x3"], "--shape: got c, the model's inputs are a, b"),
        ([str(model), "-i", given, "--shape", "a:2x4"], "shape [2, 4] is given for input 'a'"),
    ):
        monkeypatch.setattr(sys, "argv", ["nnhal", "run", *arguments])
        require_refusal(words)


def require_refusal(words: str) -> None:
    """The command fails with one line, and perhaps a hint."""
    with pytest.raises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
        main()
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("hint:")]
    assert ended.value.code == 1
    assert len(lines) == 1 and words in lines[0]


def test_an_open_batch_is_fixed_by_its_name(tmp_path: Path) -> None:
    path, array = tmp_path / "open.onnx", np.array([[-1, 2]], np.float32)
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(onnx_model([node], {"x": ["batch", 2]}, ["y"]), path)
    np.save(tmp_path / "x.npy", array)
    done = nnhal("run", str(path), "-i", str(tmp_path / "x.npy"), "--dim", "batch=1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"]["y"] == [[0, 2]]


def test_random_inputs_have_lengths_that_the_model_runs_with(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Pad", ["audio", "pads"], ["padded"], mode="reflect"),
        helper.make_node("ReduceMax", ["padded", "last"], ["largest"], keepdims=1),
        helper.make_node("Squeeze", ["state", "last"], ["only"]),
        helper.make_node("Add", ["largest", "only"], ["y"]),
    ]
    shapes: dict[str, list[int | None]] = {"audio": [None, None], "state": [2, None, 4]}
    constants = {"pads": np.array([0, 40, 0, 40]), "last": np.array([1])}
    path = tmp_path / "open.onnx"
    onnx.save(onnx_model(nodes, shapes, ["y"], constants), path)
    done = nnhal("run", str(path), "--json")
    assert done.returncode == 0, done.stderr
    assert "audio float32 [1, 64], state float32 [2, 1, 4]; open dimensions, audio [?, ?]" in done.stderr
    assert "--shape chooses them" in done.stderr
    assert np.array(json.loads(done.stdout)["outputs"]["y"]).shape == (2, 4)


def test_if_it_runs_with_no_lengths_that_are_tried_it_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "never.onnx"
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    onnx.save(onnx_model([node], {"x": ["length"]}, ["y"], {"shape": np.array([-1, 9_999_991])}), path)
    done = nnhal("run", str(path))
    assert done.returncode == 1
    *_, error, hint = done.stderr.splitlines()
    assert error.startswith("nnhal: inputs have open dimensions, x [length], and the model ran with none of ")
    assert hint == "hint: give them: --shape x:N, or --dim NAME=N for one that has a name"


def test_without_inputs_random_ones_are_made_told_and_compared(model: Path) -> None:
    done = nnhal("run", str(model), "--repeat", "3", "--compare", "ort", "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    assert "without --input: random inputs of seed 5, a float32 [2, 3], b float32 [2, 3]" in done.stderr
    found = json.loads(done.stdout)
    assert len(found["durations_ns"]) == 3
    (compared,) = found["compared"]
    assert compared["output"] == "y"
    assert compared["largest_difference"] <= compared["limit"]
