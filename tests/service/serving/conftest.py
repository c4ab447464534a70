"""Served models on a device process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import onnx
import pytest

from nnhal.endpoint import Endpoint
from nnhal_frontends import import_model
from nnhal_service.partition import Options
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import ServedModel, ServingConfig
from tests.support.serving import shared_loop

Serve = Callable[..., ServedModel]


@pytest.fixture
def serve(cpu_acc: Endpoint) -> Iterator[Serve]:
    """Serves an ONNX model on cpu_acc until the test ends."""
    with ExitStack() as stack:
        fleet = Fleet({"cpu_acc": cpu_acc})
        stack.callback(fleet.close)

        def start(model: onnx.ModelProto, config: ServingConfig | None = None, **more: Any) -> ServedModel:
            loaded = LoadedModel(prepare(import_model(model.SerializeToString()), fleet, (), Options()))
            stack.callback(loaded.close)
            served = ServedModel("m", "1", loaded, config or ServingConfig(), shared_loop(), **more)
            stack.callback(served.close)
            return served

        yield start
