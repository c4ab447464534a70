"""Changes of traces and logs by tritonclient take effect in the server that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc
import tritonclient.http

from nnhal.remote.admin import FrameworkAdmin
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until

STARTED = {"trace_level": ["OFF"], "trace_rate": ["1000"], "trace_count": ["-1"], "log_frequency": ["0"]}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def observed(device_processes: Devices, traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with ``tanh`` and ``other``."""
    repository = tmp_path_factory.mktemp("repository")
    for name in ("tanh", "other"):
        write(repository, name, {"1/model.onnx": onnx_file()})
    with model_server(device_processes, repository, "--trace-directory", str(traces)) as process:
        yield process


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest, observed: Served) -> Iterator[Triton]:
    api = {"grpc": tritonclient.grpc, "http": tritonclient.http}[request.param]
    with Triton(request.param, api, getattr(observed, request.param)) as client:
        yield client


def infer(triton: Triton, request_id: str, model: str = "tanh") -> None:
    triton.infer(model, {"x": numbers()}, request_id=request_id)


def trace_settings(answer: Any, triton: Triton) -> dict[str, list[str]]:
    if triton.name == "http":
        return {key: value if isinstance(value, list) else [value] for key, value in answer.items()}
    return {key: setting["value"] for key, setting in answer["settings"].items()}


def log_settings(answer: Any, triton: Triton) -> dict[str, Any]:
    if triton.name == "http":
        return dict(answer)
    return {key: next(iter(setting.values()), None) for key, setting in answer["settings"].items()}


def traced(path: Path) -> list[str]:
    return [entry["request_id"] for entry in json.loads(path.read_text()) if "request_id" in entry]


def test_a_model_is_traced_as_soon_as_a_client_wants_it_and_no_longer(triton: Triton, traces: Path) -> None:
    name = f"{triton.name}.json"
    before = trace_settings(triton.shown("get_trace_settings", model_name="tanh"), triton)
    assert STARTED.items() <= before.items()
    infer(triton, "before")
    wanted = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "2", "trace_file": name}
    answer = triton.shown("update_trace_settings", model_name="tanh", settings=wanted)
    changed = {"trace_level": ["TIMESTAMPS"], "trace_rate": ["1"], "trace_count": ["2"], "trace_file": [name]}
    assert trace_settings(answer, triton) == before | changed
    assert trace_settings(triton.shown("get_trace_settings", model_name="other"), triton) == before
    infer(triton, "first")
    infer(triton, "unseen", "other")
    for request_id in ("second", "after"):
        infer(triton, request_id)
    wait_until((traces / name).exists, "the traces are written")
    assert traced(traces / name) == ["first", "second"]
    answer = triton.shown("update_trace_settings", model_name="tanh", settings=dict.fromkeys(wanted))
    assert trace_settings(answer, triton) == before


def test_the_log_is_verbose_as_soon_as_a_client_wants_it_and_no_longer(triton: Triton, observed: Served) -> None:
    before = log_settings(triton.shown("get_log_settings"), triton)
    infer(triton, f"before-{triton.name}")
    answer = triton.shown("update_log_settings", {"log_verbose_level": 1, "log_format": "ISO8601"})
    changed = {"log_verbose_level": 1, "log_format": "ISO8601"}
    assert log_settings(answer, triton) == before | changed
    assert log_settings(triton.shown("get_log_settings"), triton) == before | changed
    infer(triton, f"seen-{triton.name}")
    answer = triton.shown("update_log_settings", {key: before[key] for key in changed})
    assert log_settings(answer, triton) == before
    infer(triton, f"after-{triton.name}")
    triton.client.update_log_settings({"log_verbose_level": 1})
    infer(triton, f"last-{triton.name}")
    triton.client.update_log_settings({"log_verbose_level": before["log_verbose_level"]})
    wait_until(lambda: f"last-{triton.name}" in observed.child.said(), "the request is in the log")
    said = observed.child.said()
    assert f"seen-{triton.name}" in said
    assert f"before-{triton.name}" not in said
    assert f"after-{triton.name}" not in said


def test_operators_and_clients_change_the_same_level(triton: Triton, observed: Served) -> None:
    def shown() -> dict[str, Any]:
        return log_settings(triton.shown("get_log_settings"), triton)

    before, request_id = shown(), f"operated-{triton.name}"
    with FrameworkAdmin(observed.endpoint, observed.child.admin_key) as operator:
        assert operator.process().log_level == "warning"
        operator.set_log_level("debug")
        assert shown() == before | {"log_verbose_level": 1, "log_info": True}
        infer(triton, request_id)
        wait_until(
            lambda: [line.level for line in operator.log_lines().lines if line.request_id == request_id] == ["debug"],
            "the request is in the log",
        )
        triton.client.update_log_settings({"log_verbose_level": 0})
        assert operator.process().log_level == "info"
        operator.set_log_level("warning")
        assert shown() == before
