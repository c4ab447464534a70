"""A model of two steps on two device processes, with observers of its requests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import structlog
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal_frontends import import_model
from nnhal_hosting.log_lines import format_lines
from nnhal_hosting.logs import LEVELS, SHOWN, levels_from, show_logs
from nnhal_service.partition import Options, Pin
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import InferenceRequest, Observer, ServedModel, ServingConfig
from tests.support.onnx_models import onnx_model, random
from tests.support.serving import shared_loop

Serve = Callable[..., ServedModel]


@pytest.fixture
def fleet(cpu_acc: Endpoint, cpu_ref: Endpoint) -> Iterator[Fleet]:
    both = Fleet({"cpu_acc": cpu_acc, "cpu_ref": cpu_ref})
    yield both
    both.close()


@pytest.fixture
def serve(fleet: Fleet) -> Iterator[Serve]:
    """Serves y = tanh(relu(x)), of n x 3: the first step on cpu_acc and the second on cpu_ref."""
    with ExitStack() as stack:

        def start(
            observers: Sequence[Observer] = (), config: ServingConfig | None = None, name: str = "m", **more: Any
        ) -> ServedModel:
            nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
            model = onnx_model(nodes, {"x": more.pop("shape", (2, 3))}, ["y"])
            options = Options(pins=(Pin("op:RELU", "cpu_acc"), Pin("op:TANH", "cpu_ref")))
            loaded = LoadedModel(prepare(import_model(model.SerializeToString()), fleet, (), options))
            stack.callback(loaded.close)
            served = ServedModel(name, "1", loaded, config or ServingConfig(), shared_loop(), observers, **more)
            stack.callback(served.close)
            return served

        yield start


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """The output of a process that logs warnings and errors as JSON; the previous configuration is restored."""
    before, lines = structlog.get_config(), io.StringIO()
    show_logs(levels_from("warning"))
    format_lines("test", as_json=True, whole_seconds=lambda: SHOWN.whole_seconds)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(lines), cache_logger_on_first_use=False)
    yield lines
    structlog.contextvars.clear_contextvars()
    structlog.configure(**before)
    show_logs(LEVELS)


def infer(served: ServedModel, request_id: str = "", rows: int = 2) -> None:
    served.infer_and_wait(InferenceRequest({"x": random(rows, 3)}, id=request_id)).release()


def taken(output: io.StringIO) -> list[dict[str, Any]]:
    """Return the lines since the last call."""
    lines = output.getvalue().splitlines()
    output.seek(0)
    output.truncate()
    return [json.loads(line) for line in lines]
