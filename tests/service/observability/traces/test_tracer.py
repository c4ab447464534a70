"""Trace files of requests that really ran."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from nnhal_service.observability import RequestScope, Tracer
from nnhal_service.observability.traces.files import TraceFiles
from nnhal_service.observability.traces.formats import triton_trace
from nnhal_service.observability.traces.request_trace import RequestTrace
from nnhal_service.serving import Batching, InferenceRequest, ServedModel, ServingConfig, ServingError
from nnhal_service.serving.requests.client_memory import to_array
from tests.service.observability.conftest import Serve, infer
from tests.support.onnx_models import random

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ORDER = [
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
    "COMPUTE_INPUT_END",
    "COMPUTE_OUTPUT_START",
    "COMPUTE_END",
    "INFER_RESPONSE_COMPLETE",
    "REQUEST_END",
]
Traced = tuple[ServedModel, Tracer]
ON = {"trace_level": ("TIMESTAMPS",), "trace_rate": ("1",)}


@pytest.fixture
def traced(serve: Serve, tmp_path: Path) -> Iterator[Traced]:
    tracer = Tracer(lambda name: name == "m", tmp_path, ON)
    yield serve(samplers=[tracer.sampler]), tracer
    tracer.close()


def read(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text())
    return entries


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def heads(path: Path) -> list[dict[str, Any]]:
    return [entry for entry in read(path) if "model_name" in entry]


def instants(path: Path, number: int) -> dict[str, int]:
    found = [entry["timestamps"] for entry in read(path) if entry["id"] == number and "timestamps" in entry]
    assert all(len(timestamps) == 1 for timestamps in found)
    return {timestamp["name"]: timestamp["ns"] for (timestamp,) in found}


def test_a_file_has_the_request_its_instants_and_the_steps_on_the_devices(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with RequestScope(PARENT):
        infer(served, "seven")
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    tracer.flush()
    path = tmp_path / "trace.json"
    (head,) = heads(path)
    assert (head["id"], head["model_name"], head["model_version"]) == (1, "m", 1)
    assert (head["request_id"], head["nnhal_trace_id"]) == ("seven", PARENT.split("-")[1])
    found = instants(path, 1)
    assert list(found) == ORDER
    assert before <= found["REQUEST_START"] and found["REQUEST_END"] <= after
    assert list(found.values()) == sorted(found.values())
    steps = head["nnhal_steps"]
    assert [(step["step"], step["device"]) for step in steps] == [(0, "cpu_acc"), (1, "cpu_ref")]
    for step in steps:
        assert found["COMPUTE_INPUT_END"] <= step["started_ns"] < step["ended_ns"] <= found["COMPUTE_OUTPUT_START"]
    assert steps[0]["ended_ns"] <= steps[1]["started_ns"]


def test_requests_are_measured_only_when_they_are_traced(serve: Serve, tmp_path: Path) -> None:
    tracer = Tracer(lambda _: True, tmp_path, {**ON, "trace_rate": ("3",)})
    served = serve(samplers=[tracer.sampler])
    for number in range(1, 11):
        infer(served, str(number))
    tracer.close()
    assert [head["request_id"] for head in heads(tmp_path / "trace.json")] == ["3", "6", "9"]
    assert all(head["nnhal_steps"] for head in heads(tmp_path / "trace.json"))
    assert served.statistics().execution_count == 10


def test_the_count_ends_it_and_the_file_is_written_then(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    assert tracer.update("", {"trace_count": ("2",)})["trace_count"] == ("2",)
    infer(served)
    assert tracer.update("", {})["trace_count"] == ("1",)
    assert not list(tmp_path.iterdir())
    for _ in range(4):
        infer(served)
    tracer.flush()
    assert tracer.update("", {})["trace_count"] == ("0",)
    assert len(heads(tmp_path / "trace.json")) == 2
    tracer.update("", {"trace_count": ("1",)})
    infer(served)
    tracer.flush()
    assert len(heads(tmp_path / "trace.json.1")) == 1


def test_files_are_written_every_so_many_traces(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    tracer.update("m", {"log_frequency": ("2",), "trace_file": ("m",)})
    for _ in range(5):
        infer(served)
    tracer.update("m", {"trace_level": ("OFF",)})
    infer(served)
    assert {path.name: len(heads(path)) for path in tmp_path.iterdir()} == {"m.0": 2, "m.1": 2, "m.2": 1}


def test_a_change_returns_when_what_was_traced_is_in_the_file(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    infer(served)
    tracer.update("", {"trace_level": ("OFF",)})
    assert len(heads(tmp_path / "trace.json")) == 1
    infer(served)
    tracer.flush()
    assert names(tmp_path) == ["trace.json"]


def test_settings_of_a_model_are_its_own(serve: Serve, tmp_path: Path) -> None:
    tracer = Tracer(lambda _: True, tmp_path)
    one, other = serve(samplers=[tracer.sampler], name="one"), serve(samplers=[tracer.sampler], name="other")
    tracer.update("other", {**ON, "trace_file": ("other",)})
    infer(one)
    infer(other)
    tracer.close()
    assert names(tmp_path) == ["other"]
    assert [head["model_name"] for head in heads(tmp_path / "other")] == ["other"]


def test_tensors_are_there_when_they_are_asked_for(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    tracer.update("", {"trace_level": ("TIMESTAMPS", "TENSORS")})
    x = random(2, 3)
    with served.infer_and_wait(InferenceRequest({"x": x})) as response:
        y = to_array(response.outputs["y"]).copy()
    tracer.flush()
    tensors = [entry for entry in read(tmp_path / "trace.json") if "tensor" in entry]
    assert [(entry["activity"], entry["tensor"]["name"]) for entry in tensors] == [
        ("TENSOR_QUEUE_INPUT", "x"),
        ("TENSOR_BACKEND_OUTPUT", "y"),
    ]
    for entry, expected in zip(tensors, (x, y), strict=True):
        assert (entry["tensor"]["shape"], entry["tensor"]["dtype"]) == ("2,3", "FP32")
        data = [float(text) for text in entry["tensor"]["data"].split(",")]
        assert data == pytest.approx(expected.ravel().tolist())


def test_a_request_that_failed_is_traced_with_the_reason(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    with pytest.raises(ServingError):
        served.infer_and_wait(InferenceRequest({}, id="bad"))
    tracer.flush()
    (head,) = heads(tmp_path / "trace.json")
    assert head["request_id"] == "bad" and "x" in head["nnhal_error"]
    assert list(instants(tmp_path / "trace.json", 1)) == ["REQUEST_START", "REQUEST_END"]


def test_a_timeline_has_requests_and_steps_in_rows_where_nothing_overlaps(serve: Serve, tmp_path: Path) -> None:
    tracer = Tracer(lambda _: True, tmp_path, {**ON, "trace_mode": ("chrome",)})
    served = serve(samplers=[tracer.sampler], config=ServingConfig(instances=3))

    def client() -> None:
        for _ in range(5):
            infer(served)

    together(client, 3)
    tracer.close()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(processes.values()) == ["cpu_acc", "cpu_ref", "framework"]
    spans = [event for event in events if event["ph"] == "X"]
    names = [event["name"] for event in spans]
    assert [names.count(name) for name in ("request m", "queue", "compute infer")] == [15, 15, 15]
    assert [names.count(f"step {number}") for number in (0, 1)] == [15, 15]
    whole = [event for event in spans if event["name"].startswith(("request", "step"))]
    for row in {(event["pid"], event["tid"]) for event in whole}:
        of_row = sorted((e for e in whole if (e["pid"], e["tid"]) == row), key=lambda event: float(event["ts"]))
        for first, second in pairwise(of_row):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-3
    arrows = [event for event in events if event["ph"] in "sf"]
    assert len(arrows) == 15 * 3 * 2 and {event["name"] for event in arrows} == {"x", "h", "y"}


def test_a_run_of_a_batch_is_in_a_timeline_once(serve: Serve, tmp_path: Path) -> None:
    tracer = Tracer(lambda _: True, tmp_path, {**ON, "trace_mode": ("chrome",)})
    config = ServingConfig(max_batch_size=4, batching=Batching((4,), max_queue_delay_ns=60 * 10**9))
    served = serve(samplers=[tracer.sampler], config=config, shape=("n", 3))
    together(lambda: infer(served), 2)
    tracer.close()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert (names.count("request m"), names.count("step 0"), names.count("step 1")) == (2, 1, 1)


def test_nothing_is_traced_without_a_place_for_it(serve: Serve) -> None:
    tracer = Tracer(lambda _: True, None, ON)
    assert not tracer.sampler.began("m", "1", InferenceRequest({}))
    infer(serve(samplers=[tracer.sampler]))
    tracer.close()


def test_a_file_that_cannot_be_written_costs_its_traces_and_nothing_else(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "trace.json").mkdir()
    tracer = Tracer(lambda _: True, tmp_path, ON)
    served = serve(samplers=[tracer.sampler])
    with capture_logs() as logs:
        infer(served)
        tracer.flush()
        infer(served)
        tracer.close()
    assert [(line["event"], line["file"]) for line in logs] == [
        ("traces are lost: a file cannot be written", "trace.json")
    ]
    assert sorted(names(tmp_path)) == ["trace.json", "trace.json.1"]


def test_a_link_in_the_directory_leads_nowhere(traced: Traced, tmp_path: Path) -> None:
    served, tracer = traced
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    (tmp_path / "trace.json").symlink_to(outside)
    infer(served)
    tracer.flush()
    assert outside.read_text() == "as it was"
    assert len(heads(tmp_path / "trace.json")) == 1 and not (tmp_path / "trace.json").is_symlink()


def test_no_more_is_written_than_may_be(tmp_path: Path) -> None:
    trace = RequestTrace(1, "m", "1", "", 1, None, 0, 1, None, None, "", ())
    size = len(triton_trace([trace]))
    files = TraceFiles(tmp_path, most_bytes=2 * size)
    with capture_logs() as logs:
        for _ in range(3):
            files.add("a", "triton", 1, trace)
        files.close()
    assert [(line["event"], line["file"]) for line in logs] == [
        ("traces are lost: the limit on their bytes is reached", "a.2")
    ]
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {"a.0": size, "a.1": size}


def together(work: Callable[[], None], count: int) -> None:
    """Do work in several threads at the same time."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
