"""A model whose four steps run on four devices, one after the other, and a framework process over the devices."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_client import Framework, Model, connect
from nnhal_hosting.supervision import Child
from tests.support.drawn_values import integers
from tests.support.nursery import Nursery
from tests.support.processes import WARM
from tests.support.tflite_files import Spec, TfliteFile, floats, int8
from tests.support.waiting import wait_until

Fallback = Literal["allow", "deny"]
DEVICES = ("gpu_acc", "ethos_n", "cpu_acc", "cpu_ref")
Order = tuple[str, ...]
"""The device of each operation. Each device runs its operations as one step, which waits for the step before."""
CPU_FIRST: Order = ("cpu_ref", "gpu_acc", "ethos_n", "cpu_acc", "cpu_acc")
CPU_LAST: Order = ("gpu_acc", "gpu_acc", "ethos_n", "cpu_acc", "cpu_ref")
_SCALE, _SHAPE = 0.05, (1, 8, 8, 4)
TOLERANCE = 2 * _SCALE
"""The tolerance between devices, which may round to neighbouring integers."""


def relay() -> bytes:
    """Return tanh, quantisation, a convolution of 8-bit integers, dequantisation, and tanh."""
    file = TfliteFile()
    real, integer = floats(*_SHAPE), int8(*_SHAPE, scale=_SCALE)
    x = file.input("x", real)
    (a,) = file.operator("TANH", [x], {"step0": real})
    (b,) = file.operator("QUANTIZE", [a], {"step1": integer})
    filter_ = file.constant(integers(4, 1, 1, 4), int8(4, 1, 1, 4, scale=[0.004] * 4))
    bias = file.constant(integers(4), Spec([4], np.int32, [_SCALE * 0.004] * 4))
    window = ("Conv2DOptions", {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0})
    (c,) = file.operator("CONV_2D", [b, filter_, bias], {"step2": integer}, window)
    (d,) = file.operator("DEQUANTIZE", [c], {"step3": real})
    (y,) = file.operator("TANH", [d], {"step4": real})
    return file.build(y)


def feed(number: int) -> Array:
    return np.random.default_rng(number).uniform(-1, 1, _SHAPE).astype(np.float32)


class Relay:
    """Four devices, a framework, and the model. ``answers`` has the right output for ``feed`` of each number."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "relay.tflite"
        self.path.write_bytes(relay())
        self.nursery = Nursery(directory)
        for name in DEVICES:
            self.nursery.start(name)
        endpoints = [f"--device={name}={self.nursery.endpoint(name).directory}" for name in DEVICES]
        self.framework = directory / "framework"
        self.process = Child("nnhal_service", ["--endpoint", str(self.framework), *endpoints], zygote=WARM)
        self.process.wait_until_ready()
        with connect(self.framework) as session:
            reference = session.load(self.path, devices=["cpu_ref"])
            self.answers = [result(reference.run({"x": feed(number)})) for number in range(8)]

    def load(self, session: Framework, fallback: Fallback, order: Order = CPU_LAST) -> Model:
        pins = {f"name:*step{number}": device for number, device in enumerate(order)}
        model = session.load(self.path, pins=pins, fallback=fallback)
        assert model.steps == tuple(dict.fromkeys(order))
        return model

    def check(self, model: Model, number: int) -> None:
        np.testing.assert_allclose(result(model.run({"x": feed(number)})), self.answers[number], rtol=0, atol=TOLERANCE)

    @contextmanager
    def clients(self, count: int, fallback: Fallback, order: Order = CPU_LAST) -> Iterator[list[Client]]:
        """Start clients that run without pause; the first error of one of them is raised when the context ends."""
        clients = [Client(self, number, fallback, order) for number in range(count)]
        try:
            wait_until(lambda: all(client.runs > 1 or client.wrong for client in clients), "every client runs")
            yield clients
        finally:
            for client in clients:
                client.stop.set()
            for client in clients:
                client.thread.join(60)
        for client in clients:
            if client.wrong:
                raise client.wrong[0]
            assert not client.thread.is_alive()

    def close(self) -> None:
        self.process.stop()
        self.nursery.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Client:
    """Runs the model repeatedly. ``runs`` counts right outputs, ``errors`` has the errors of other runs."""

    def __init__(self, relay_: Relay, number: int, fallback: Fallback, order: Order) -> None:
        self.runs = 0
        self.errors: list[HalError] = []
        self.wrong: list[BaseException] = []
        self.stop = threading.Event()
        self._relay, self._number, self._fallback, self._order = relay_, number, fallback, order
        self.thread = threading.Thread(target=self._run, name=f"client-{number}")
        self.thread.start()

    def _run(self) -> None:
        try:
            with connect(self._relay.framework) as session:
                model = self._relay.load(session, self._fallback, self._order)
                while not self.stop.is_set():
                    try:
                        self._relay.check(model, self._number)
                        self.runs += 1
                    except HalError as error:
                        self.errors.append(error)
        except BaseException as error:
            self.wrong.append(error)


def result(outputs: Mapping[str, Array]) -> Array:
    (array,) = outputs.values()
    return array
