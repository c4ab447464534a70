"""Model repositories on disk, and a fake that loads their models without devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from onnx import helper

from nnhal.arrays import Array
from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository import Opened
from nnhal_service.repository.source import ModelSource
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest
from tests.support.onnx_models import onnx_model
from tests.support.tflite_files import Spec, TfliteFile


def onnx_file(operation: str = "Tanh", shape: tuple[str | int, ...] = ("n", 8)) -> bytes:
    """Return the model ``y = operation(x)`` in float32."""
    return onnx_model([helper.make_node(operation, ["x"], ["y"], name="node")], {"x": shape}, ["y"]).SerializeToString()


def tflite_file() -> bytes:
    """Return the model ``y = relu(x)`` in float32 of shape [1, 8]."""
    file = TfliteFile()
    (output,) = file.operator("RELU", [file.input("x", Spec([1, 8]))], {"y": Spec([1, 8])})
    return file.build(output)


def write(repository: Path, name: str, files: Mapping[str, bytes | str]) -> Path:
    folder = repository / name
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def numbers() -> Array:
    return np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)


class StubModel:
    """A model that cannot run. ``closed`` is set when it has been closed."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.closed = threading.Event()

    def warm_up(self, requests: Iterable[InferenceRequest]) -> None:
        """Do nothing."""

    def close(self) -> None:
        self.closed.set()


class StubOpener:
    """Opens versions according to the word in their file: ``broken`` fails, ``crash`` is a defect, ``hold`` waits."""

    def __init__(self) -> None:
        self.opened: list[StubModel] = []
        self.holding = threading.Event()
        self.go_on = threading.Event()
        self.while_opening: Callable[[], None] = lambda: None

    def open(self, name: str, version: int, config: wire.ModelConfig, source: ModelSource) -> Opened[StubModel]:
        content = source.read(f"{version}/model.onnx")
        self.while_opening()
        if content == b"hold":
            self.holding.set()
            assert self.go_on.wait(30)
        if content == b"broken":
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"failed to load {name!r}, version {version}: broken")
        if content == b"crash":
            raise ZeroDivisionError("/etc/passwd")
        self.opened.append(StubModel(content))
        return Opened(name, version, self.opened[-1], config)
