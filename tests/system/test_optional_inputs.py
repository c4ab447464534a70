"""Inputs with a default, an initializer of the same name in an ONNX file: as ONNX Runtime has them, by each way."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_client import Framework, V2Server, connect
from nnhal_client.aio import AsyncFramework
from nnhal_tools.up import Testbed
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import write

X = np.linspace(-2, 2, 16, dtype=np.float32).reshape(1, 1, 4, 4)
KERNEL = np.linspace(-1, 1, 9, dtype=np.float32).reshape(1, 1, 3, 3)


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def with_defaults(
    nodes: list[onnx.NodeProto], inputs: Mapping[str, Any], defaults: Mapping[str, Array], open_axes: bool = False
) -> onnx.ModelProto:
    """A model of nodes that computes y, whose ``defaults`` are inputs too; with ``open_axes`` of unknown lengths."""
    shapes = {name: [f"{name}{n}" for n in range(v.ndim)] if open_axes else v.shape for name, v in defaults.items()}
    kinds = {name: value.dtype.type for name, value in defaults.items()}
    return onnx_model(nodes, {**inputs, **shapes}, ["y"], defaults, element_types=kinds)


MODELS: dict[str, tuple[onnx.ModelProto, list[dict[str, Array]]]] = {
    "weights": (
        with_defaults(
            [node("Conv", "x w", "c"), node("Add", "c b", "y")],
            {"x": X.shape},
            {"w": KERNEL, "b": KERNEL[:, :, :2, :2]},
        ),
        [
            {"x": X},
            {"x": X, "w": KERNEL[:, :, ::-1]},
            {"x": X, "b": KERNEL[:, :, 1:, 1:]},
            {"x": X, "w": 2 * KERNEL, "b": KERNEL[:, :, 1:, 1:]},
        ],
    ),
    "folded": (
        with_defaults(
            [node("Exp", "w", "e"), node("Neg", "e", "f"), node("Mul", "x f", "y")],
            {"x": X.shape},
            {"w": np.array([0.5], np.float32)},
        ),
        [{"x": X}, {"x": X, "w": np.array([-1], np.float32)}],
    ),
    "scalar": (
        with_defaults([node("Clip", "x low", "y")], {"x": X.shape}, {"low": np.array(-1, np.float32)}),
        [{"x": X}, {"x": X, "low": np.array(0.5, np.float32)}],
    ),
    "shape": (
        with_defaults([node("Reshape", "x to", "y")], {"x": X.shape}, {"to": np.array([4, 4])}),
        [{"x": X}, {"x": X, "to": np.array([2, 8])}],
    ),
    "open": (
        with_defaults([node("Add", "x w", "y")], {"x": ["n", 1]}, {"w": np.array([1, 2], np.float32)}, open_axes=True),
        [
            {"x": X.reshape(16, 1)},
            {"x": X.reshape(16, 1), "w": np.array([3, 4, 5], np.float32)},
            {"x": X.reshape(16, 1)[:3], "w": np.array([7], np.float32)},
        ],
    ),
}
CASES = [(name, number) for name, (_, given) in MODELS.items() for number in range(len(given))]


def expected(name: str, feeds: Mapping[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(MODELS[name][0].SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(feeds))[0])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("defaults")
    for name, (model, _) in MODELS.items():
        write(folder, name, {"1/model.onnx": model.SerializeToString()})
    batched = with_defaults([node("Add", "x w", "y")], {"x": ["n", 2]}, {"w": np.array([1, 2], np.float32)})
    write(folder, "batched", {"1/model.onnx": batched.SerializeToString(), "config.pbtxt": "max_batch_size: 4"})
    return folder


@pytest.fixture(scope="module", params=[(), ("--front-workers", "2")], ids=["one process", "front workers"])
def served(request: pytest.FixtureRequest, device_processes: Devices, repository: Path) -> Iterator[Served]:
    with model_server(device_processes, repository, *request.param) as process:
        yield process


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_server_s_model_takes_them_and_does_without(served: Served, name: str, number: int) -> None:
    feeds = MODELS[name][1][number]
    wanted = expected(name, feeds)
    with V2Server(served.grpc) as server, connect(served.endpoint.directory) as session:
        for model in (server.open(name), session.open(name)):
            assert {t.name for t in model.inputs} == {"x"}
            assert {t.name for t in model.optional_inputs} >= feeds.keys() - {"x"}
            np.testing.assert_allclose(np.asarray(model.run(feeds)["y"]), wanted, rtol=1e-5, atol=1e-6)


def test_a_configuration_has_them_as_optional(served: Served) -> None:
    found = httpx.get(f"http://{served.http}/v2/models/weights/config").json()["input"]
    assert {entry["name"]: entry["optional"] for entry in found} == {"x": False, "w": True, "b": True}
    (entry,) = httpx.get(f"http://{served.http}/v2/models/batched/config").json()["input"]
    assert entry["name"] == "x"  # w has no axis for the batch
    with V2Server(served.grpc) as server, pytest.raises(ValueError, match=r"got inputs \['w', 'x'\], expected \['x'\]"):
        server.open("batched").run({"x": np.array([[1, 2]], np.float32), "w": np.array([1, 2], np.float32)})


@pytest.fixture(scope="module")
def files(repository: Path) -> Mapping[str, Path]:
    return {name: repository / name / "1" / "model.onnx" for name in MODELS}


@pytest.mark.parametrize("device", ["cpu_acc", "cpu_ref"])
@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_loaded_model_takes_them_and_does_without(
    testbed: Testbed, files: Mapping[str, Path], name: str, number: int, device: str
) -> None:
    feeds = MODELS[name][1][number]
    wanted = expected(name, feeds)
    with connect(testbed.framework) as session, session.load(files[name], devices=[device]) as model:
        np.testing.assert_allclose(np.asarray(model.run(feeds)["y"]), wanted, rtol=1e-5, atol=1e-6)
        with model.bind(dimensions={key: value.shape for key, value in feeds.items()}) as binding:
            for key, value in feeds.items():
                binding.put(key, value)
            binding.run()
            np.testing.assert_allclose(np.asarray(binding.value("y")), wanted, rtol=1e-5, atol=1e-6)


def test_asyncio_takes_them_too(testbed: Testbed, files: Mapping[str, Path]) -> None:
    async def run() -> list[Any]:
        async with (
            AsyncFramework(Framework(testbed.framework)) as session,
            await session.load(files["weights"]) as model,
        ):
            return [(await model.run(feeds))["y"] for feeds in MODELS["weights"][1]]

    for found, feeds in zip(asyncio.run(run()), MODELS["weights"][1], strict=True):
        np.testing.assert_allclose(found, expected("weights", feeds), rtol=1e-5, atol=1e-6)


def test_what_is_no_default_is_refused(testbed: Testbed, tmp_path: Path) -> None:
    """Before IR version 4 every initializer is listed as an input, and none can be given."""
    model = onnx.ModelProto()
    model.CopyFrom(MODELS["weights"][0])
    model.ir_version = 3
    path = tmp_path / "old.onnx"
    path.write_bytes(model.SerializeToString())
    with connect(testbed.framework) as session, session.load(path) as loaded:
        assert not loaded.optional_inputs
        loaded.run({"x": X})
        with pytest.raises(ValueError, match=r"got inputs \['w', 'x'\], expected \['x'\]"):
            loaded.run({"x": X, "w": KERNEL})


def test_choices_of_inputs_are_limited(testbed: Testbed, tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(5)]
    nodes = [node("Sum", " ".join(["x", *names]), "y")]
    path = tmp_path / "many.onnx"
    path.write_bytes(
        with_defaults(nodes, {"x": [1]}, dict.fromkeys(names, np.array([1], np.float32))).SerializeToString()
    )
    choices = [each for count in (1, 2, 3) for each in itertools.combinations(names, count)]
    one = np.array([1], np.float32)
    with connect(testbed.framework) as session, session.load(path, devices=["cpu_ref"]) as model:
        for chosen in choices[:16]:
            assert model.run({"x": one, **dict.fromkeys(chosen, 2 * one)})["y"] == 6 + len(chosen)
        with pytest.raises(HalError, match="besides 16 other choices of such inputs"):
            model.run({"x": one, **dict.fromkeys(choices[16], one)})
        assert model.run({"x": one})["y"] == 6
