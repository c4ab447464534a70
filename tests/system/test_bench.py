"""``nnhal bench``: its rows. The times themselves are not tested."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import onnx
import pytest
from onnx import helper

from nnhal_tools.bench.model import UNRELIABLE
from tests.support.command import nnhal
from tests.support.onnx_models import onnx_model


@pytest.mark.slow
def test_every_mode_is_measured_on_both_models() -> None:
    done = nnhal("bench", "modes", "--rounds", "10", "--large-rounds", "3", "--json")
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert len({report["model"] for report in reports}) == 2
    assert len({report["mode"] for report in reports}) == 7
    assert len(reports) == 14
    for report in reports:
        assert 0 < report["compute_ns"] < report["p50_ns"] <= report["p99_ns"], report
        assert 0 < report["overhead"] < 1, report


@pytest.mark.slow
def test_a_hop_is_measured_against_its_floor() -> None:
    done = nnhal("bench", "hop", "--rounds", "10", "--large-rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["burst_over_floor"] > 0
    assert report["direct_over_floor"] > 0
    assert set(report["p50_ns"]) == {"ping-pong, 64 bytes", "in process", "direct run", "burst", "gRPC"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--measured",)], ids=["direct", "measured"])
def test_a_model_is_measured_in_one_to_eight_steps(options: tuple[str, ...]) -> None:
    done = nnhal("bench", "chain", "--rounds", "10", "--json", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ping_pong_ns"] > 0
    assert [cut["steps"] for cut in report["cuts"]] == list(range(1, 9))
    for cut in report["cuts"]:
        assert cut["own_ns"] > 0 and cut["run_ns"] > 0, cut


def test_a_value_is_passed_between_every_two_devices_without_a_copy_or_with_one() -> None:
    done = nnhal("bench", "fallback", "--rounds", "3", "--sizes", "4,64", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    pairs = set(permutations(("GPU", "NPU", "CPU"), 2))
    sizes = (4096, 65536)
    assert {(e["source"], e["destination"], e["bytes"]) for e in report["edges"]} == {
        (*pair, size) for pair in pairs for size in sizes
    }
    for edge in report["edges"]:
        imported, copied = edge["imported"], edge["copied"]
        assert (imported["staged_bytes"], imported["staging_ns"]) == (0, 0)
        assert copied["staged_bytes"] == edge["bytes"]
        assert 0 < copied["staging_ns"] <= copied["edge_ns"]
        assert imported["memory"] == (
            "hardware_buffer_blob" if "NPU" in (edge["source"], edge["destination"]) else "ashmem"
        )
        assert (copied["memory"], copied["offset"]) == (
            "ashmem",
            0 if "NPU" in (edge["source"], edge["destination"]) else 64,
        )
    assert {(pair["source"], pair["destination"]) for pair in report["pairs"]} == pairs


@pytest.mark.parametrize("sizes", ["3", "131072", "", "4,x"])
def test_sizes_that_no_image_can_have_are_refused(sizes: str) -> None:
    done = nnhal("bench", "fallback", "--sizes", sizes)
    assert done.returncode == 1
    assert "expected powers of two" in done.stderr


@pytest.mark.slow
def test_a_model_of_the_users_is_measured_beside_its_runtime(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["z"], name="low"), helper.make_node("Softmax", ["z"], ["y"], name="top")]
    model, page, trace = tmp_path / "hop", tmp_path / "page.html", tmp_path / "trace.json"
    onnx.save(onnx_model(nodes, {"x": ["n", 8]}, ["y"]), model)
    pins = ("--pin", "op:SOFTMAX=cpu_ref", "--pin", "op:RELU=cpu_acc")
    options = ("--beside", "ort,litert", "--rounds", "10", "--busy", "1", *pins, "--html", str(page))
    done = nnhal("bench", "--json", *options, "--trace", str(trace), str(model))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {
        "version",
        "model",
        "seed",
        "inputs",
        "rounds",
        "nnhal",
        "is_direct",
        "beside",
        "steps",
        "operations",
        "on_devices",
        "prepared_again",
        "bound_again",
        "pointed_at",
        "notes",
        "modelled_ns",
        "copied",
    }
    assert report["version"] == 1
    assert report["inputs"] == {"x": "float32 [1, 8]"}
    (beside,) = report["beside"]
    assert beside["runtime"] == "ort"
    assert beside["largest_difference"] < 1e-6
    for times in (report["nnhal"], beside["times"]):
        assert 0 < times["least_ns"] <= times["p50_ns"] <= times["p90_ns"] <= times["p99_ns"]
    assert [(step["device"], step["operations"]) for step in report["steps"]] == [
        ("cpu_acc", ["RELU"]),
        ("cpu_ref", ["SOFTMAX"]),
    ]
    found = {(each["source"], each["type"], *each["nodes"]) for each in report["operations"]}
    assert found == {
        ("cpu_acc", "RELU", "low"),
        ("cpu_ref", "SOFTMAX", "top"),
        ("ort", "Relu", "low"),
        ("ort", "Softmax", "top"),
    }
    told = report["on_devices"]
    assert [(each["device"], each["step"], each["is_modelled"]) for each in told] == [
        ("cpu_acc", 0, False),
        ("cpu_ref", 1, False),
    ]
    assert [[report["operations"][n]["nodes"] for n in each["operations"]] for each in told] == [[["low"]], [["top"]]]
    assert all(each["duration_ns"] > 0 for each in told)
    assert [note for note in report["notes"] if not note.endswith(UNRELIABLE)] == [
        f"step {number}, times by operation from {device}: measured in 20 runs on zeros"
        for number, device in enumerate(("cpu_acc", "cpu_ref"))
    ]
    assert report["prepared_again"] == report["bound_again"] == {"cpu_acc": 0, "cpu_ref": 0}
    assert "Operations, those that take longest" in page.read_text()
    assert "cpu_ref, measured" in page.read_text()
    assert "<script" not in page.read_text()
    spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    inside = [span for span in spans if "share_of_step" in span["args"]]
    assert {span["name"] for span in inside} == {each["name"] for each in told}
    assert all(span["args"] == {"share_of_step": 1.0, "measured_in_this_run": False} for span in inside)


_SLOW = """
from nnhal.kernels import KERNELS
from nnhal.types import OperationType
from nnhal_devices.cpu_ref import interpreter
from nnhal_devices.cpu_ref.driver import CpuRef

BACKEND_ID = "Slow"
API_VERSION = (1, 4)


class Kernels:
    def __getitem__(self, kind):
        kernel, count = KERNELS[kind], 1000 if kind == OperationType.TANH else 1
        return lambda context: [kernel(context) for _ in range(count)][-1]


def create_backend(options):
    interpreter.KERNELS = Kernels()
    device = CpuRef(options)
    device.name = BACKEND_ID
    return device
"""


@pytest.mark.slow
def test_a_slow_operation_of_a_device_is_pointed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Test_Slow_backend.py").write_text(_SLOW)
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    names = {"low": "Relu", "middle": "Tanh", "top": "Softmax"}
    values = ["x", "a", "b", "y"]
    nodes = [
        helper.make_node(kind, [values[number]], [values[number + 1]], name=name)
        for number, (name, kind) in enumerate(names.items())
    ]
    model = tmp_path / "model.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 64]}, ["y"]), model)
    for _ in range(8):  # on a busy machine times may be such that nothing is concluded from them
        done = nnhal("bench", str(model), "--devices", "Slow", "--rounds", "10", "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert [step["operations"] for step in report["steps"]] == [["RELU", "TANH", "SOFTMAX"]]
        if not any(note.endswith(UNRELIABLE) for note in report["notes"]):
            break
    (found,) = report["pointed_at"]
    assert found.startswith("TANH middle takes ")


_BOASTING = """
from dataclasses import replace
from nnhal_devices.cpu_ref.driver import CpuRef, ReferenceWorkload

BACKEND_ID = "Boasting"
API_VERSION = (1, 4)


class Workload(ReferenceWorkload):
    def operation_times(self, control):
        told = super().operation_times(control)
        return replace(told, times=tuple(replace(each, duration=each.duration + 1e9) for each in told.times))


def create_backend(options):
    device = CpuRef(options)
    device.name, device.prepare = BACKEND_ID, lambda model, options: Workload(model)
    return device
"""


@pytest.mark.slow
def test_of_times_that_cannot_be_it_says_so_and_concludes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Test_Boasting_backend.py").write_text(_BOASTING)
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    nodes = [helper.make_node("Relu", ["x"], ["z"], name="low"), helper.make_node("Softmax", ["z"], ["y"], name="top")]
    model = tmp_path / "model.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 64]}, ["y"]), model)
    done = nnhal("bench", str(model), "--devices", "Boasting", "--beside", "ort", "--rounds", "10")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 20
    assert any(line.endswith("these times are unreliable, and nothing is concluded from them") for line in lines)
    assert not any("its share" in line or line.startswith("longest on devices") for line in lines)
    assert lines[-1] == "--all shows every step and operation, and how their times came about"
    everything = nnhal("bench", str(model), "--devices", "Boasting", "--rounds", "10", "--all")
    assert "Operations, those that take longest" in everything.stdout
    assert "are unreliable" in everything.stdout


def test_what_is_neither_a_file_nor_a_command_is_refused() -> None:
    done = nnhal("bench", "hopp")
    assert done.returncode == 1
    assert "hopp: No such file or directory" in done.stderr
