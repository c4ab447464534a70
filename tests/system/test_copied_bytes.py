"""Copies by devices of inputs, outputs and states: by plan, as they count it, and as runs report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from onnx import helper

from nnhal.remote import RemoteDevice
from nnhal_client import Framework, Model, connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.processes import device_process
from tests.support.repositories import write
from tests.support.stateful_models import running_total
from tests.support.tflite_files import Spec, TfliteFile

DRIVERS = ("cpu_ref", "cpu_acc", "gpu_acc", "ethos_n", "ethos_u", "mlip")
ODD = (1, 5, 7, 3)
QUANTISED = Spec(ODD, np.int8, 0.5)


def floats(shape: tuple[str | int, ...] = ODD) -> bytes:
    """Return a model with two inputs and two outputs, each of a size that is no multiple of an alignment."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Mul", ["a", "w"], ["z"]),
    ]
    return onnx_model(nodes, {"x": shape, "w": shape}, ["y", "z"]).SerializeToString()


def integers() -> bytes:
    """Return the same of 8-bit integers, which NPUs take."""
    file = TfliteFile()
    x, w = file.input("x", QUANTISED), file.input("w", QUANTISED)
    (summed,) = file.operator("ADD", [x, w], {"y": QUANTISED})
    (positive,) = file.operator("RELU", [summed], {"z": QUANTISED})
    return file.build(summed, positive)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, RemoteDevice]]]:
    """Run a framework over every device, with a repository whose models are each for certain devices."""
    repository = tmp_path_factory.mktemp("models")
    for name in DRIVERS:
        others = "" if name.startswith("cpu") else ",cpu_ref"
        parameters = f'parameters {{ key: "devices" value {{ string_value: "{name}{others}" }} }}'
        write(repository, f"floats_{name}", {"1/model.onnx": floats(), "config.pbtxt": parameters})
        write(repository, f"integers_{name}", {"1/model.tflite": integers(), "config.pbtxt": parameters})
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("d")
        endpoints = {name: stack.enter_context(device_process(name, folder))[1] for name in DRIVERS}
        server = stack.enter_context(model_server(Devices(endpoints, {}), repository))
        yield server, {name: stack.enter_context(RemoteDevice(at)) for name, at in endpoints.items()}


@pytest.fixture
def framework(served: tuple[Served, dict[str, RemoteDevice]]) -> Iterator[Framework]:
    with connect(served[0].endpoint.directory) as session:
        yield session


def counted(devices: dict[str, RemoteDevice]) -> int:
    return sum(device.usage().staged_bytes for device in devices.values())


def planned(model: Model) -> int:
    return sum(edge.copied_bytes for edge in model.explain().edges)


@pytest.mark.parametrize("kind", ["floats", "integers"])
@pytest.mark.parametrize("name", DRIVERS)
def test_nothing_that_the_framework_or_a_client_lays_out_is_copied(
    served: tuple[Served, dict[str, RemoteDevice]], framework: Framework, kind: str, name: str
) -> None:
    server, devices = served
    with framework.open(f"{kind}_{name}") as model:
        before = counted(devices)
        assert planned(model) == 0
        for measured in (False, True):
            with model.bind(measure_timing=measured) as binding:
                report = binding.run()
                assert sum(entry.copied_bytes for entry in report.ledger) == 0
        datatype = "FP32" if kind == "floats" else "INT8"
        tensors = [
            {"name": tensor, "shape": ODD, "datatype": datatype, "data": [1] * int(np.prod(ODD))}
            for tensor in ("x", "w")
        ]
        answer = httpx.post(
            f"http://{server.http}/v2/models/{kind}_{name}/infer",
            json={"inputs": tensors, "parameters": {"nnhal_report": True}},
        ).json()
        assert "error" not in answer
        assert counted(devices) == before


def test_dimensions_states_and_devices_that_are_chosen_later_keep_to_it(
    served: tuple[Served, dict[str, RemoteDevice]], framework: Framework, tmp_path: Path
) -> None:
    _, devices = served
    opened, total = tmp_path / "open.onnx", tmp_path / "total.onnx"
    opened.write_bytes(floats(("n", 5, 7, 3)))
    total.write_bytes(running_total())
    before = counted(devices)
    for name in ("gpu_acc", "cpu_acc"):
        with framework.load(opened, [name]) as model:
            assert model.memory.alignment == (128 if name == "gpu_acc" else 64)
            for length in (1, 3):
                sizes = {"x": (length, *ODD[1:]), "w": (length, *ODD[1:])}
                with model.bind(dimensions=sizes) as binding:
                    binding.run()
        with framework.load(total, [name], states={"before": "after"}) as model, model.bind() as binding:
            for _ in range(3):
                binding.run()
            assert planned(model) == 0
    assert counted(devices) == before
