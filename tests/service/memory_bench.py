"""Scripted devices for tests of device memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.v1 import backend_pb2
from nnhal_frontends import import_model
from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import Fleet, PreparedPlan, prepare
from tests.support.onnx_models import onnx_model
from tests.support.scripted import Call, OnBurst, Script, ScriptedDevice

Pins = Mapping[str, str]


def supports_all(request: Any, call: Call) -> backend_pb2.AssessModelResponse:
    operations = [backend_pb2.OperationSupport(supported=True) for _ in request.model.main.operations]
    return backend_pb2.AssessModelResponse(operations=operations)


def three_steps(dimensions: list[int | str | None] | None = None) -> bytes:
    """Return ``t = p + q; u = t - r; y = u * s``, with outputs t and y."""
    shape = [1, 8] if dimensions is None else dimensions
    nodes = [
        helper.make_node("Add", ["p", "q"], ["t"], name="add"),
        helper.make_node("Sub", ["t", "r"], ["u"], name="sub"),
        helper.make_node("Mul", ["u", "s"], ["y"], name="mul"),
    ]
    return onnx_model(nodes, dict.fromkeys("pqrs", shape), ["t", "y"]).SerializeToString()


class Bench:
    """Scripted devices a, b and c, which share a script, and cpu_ref."""

    def __init__(
        self, directory: Path, cpu_ref: Endpoint, stack: ExitStack, script: Script, on_burst: OnBurst | None = None
    ) -> None:
        answers = {"Backend.AssessModel": supports_all, **script}
        self.devices = {
            name: stack.enter_context(ScriptedDevice(Endpoint(directory / name), answers, on_burst)) for name in "abc"
        }
        self._fleet = Fleet({"cpu_ref": cpu_ref, **{name: d.endpoint for name, d in self.devices.items()}})
        self._stack = stack
        stack.callback(self._fleet.close)

    def load(
        self,
        pins: Pins,
        fallback: Fallback = Fallback.ALLOW,
        dimensions: list[int | str | None] | None = None,
        imported: ImportedModel | None = None,
    ) -> PreparedPlan:
        """Load the three steps, or another model, with operations pinned to devices."""
        options = Options(Strategy.NNAPI, tuple(Pin(match, to) for match, to in pins.items()), fallback=fallback)
        prepared = prepare(imported or import_model(three_steps(dimensions)), self._fleet, (), options)
        self._stack.callback(prepared.release)
        return prepared

    def allocations(self) -> dict[str, int]:
        return {name: count for name, d in self.devices.items() if (count := d.count("Device.Allocate"))}


class Start(Protocol):
    """Starts the devices with a script and an answer to calls on their bursts."""

    def __call__(self, script: Script, on_burst: OnBurst | None = None) -> Bench:
        """Start the devices, which serve until the test ends."""
        ...
