"""Devices whose processes end and start again, and a model of two steps over them."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel
from nnhal.types import DataLocation, ErrorStatus, Model, NetworkEvent, Operand, OperandType, OperationType
from nnhal_devices.driver import PrepareOptions, Workload
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import ExecutionContext, Fleet, LoadedModel, RunReport, TensorBinding, prepare
from tests.support.picky import CPU, EVERYTHING, Picky, imported
from tests.support.subgraphs import INT32, Program
from tests.support.waiting import wait_until

F32 = OperandType.TENSOR_FLOAT32
NPU, ACC = "npu", "acc"
X = np.array([0.5, -0.25], np.float32)
EXPECTED = pytest.approx([float(value) for value in np.tanh(2 * X)], abs=1e-6)


def add_tanh() -> Model:
    """Return tanh(2x), which has two steps if each operation has its own device."""
    program = Program()
    main = program.graph()
    x = main.input((2,), F32)
    doubled = main.operation(OperationType.ADD, [x, x, main.constant(0, INT32)], Operand(F32, (2,)))
    main.returns(main.operation(OperationType.TANH, [doubled], Operand(F32, (2,))))
    return program.model()


class Told:
    """A device's context, which counts the notifications of each event."""

    def __init__(self) -> None:
        self.events: Counter[NetworkEvent] = Counter()

    def before_load_network(self, network: int) -> None:
        self.events[NetworkEvent.BEFORE_LOAD] += 1

    def after_load_network(self, network: int) -> None:
        self.events[NetworkEvent.AFTER_LOAD] += 1

    def before_unload_network(self, network: int) -> None:
        self.events[NetworkEvent.BEFORE_UNLOAD] += 1

    def after_unload_network(self, network: int) -> None:
        self.events[NetworkEvent.AFTER_UNLOAD] += 1


class Mortal(Picky):
    """A driver whose process can end and start again. It prepares and runs only while its gates are open."""

    def __init__(self, directory: Path, name: str, ratio: float) -> None:
        takes = (OperationType.TANH,) if name == NPU else EVERYTHING
        super().__init__(name, takes, ratio)
        self.endpoint = Endpoint(directory / name)
        self.told = Told()
        self.backend = replace(self.backend, context=self.told)
        self.may_prepare, self.prepares, self.may_run, self.runs_now = (threading.Event() for _ in range(4))
        self.may_prepare.set()
        self.may_run.set()
        self.fails = self._run
        self._process = ExitStack()

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        self.prepares.set()
        assert self.may_prepare.wait(30)
        return super().prepare(model, options)

    def _run(self) -> ErrorStatus:
        self.runs_now.set()
        assert self.may_run.wait(30)
        return ErrorStatus.NONE

    def start(self) -> None:
        """Serve as a new process."""
        self._process.enter_context(host(self, self.endpoint, DeviceSettings()))

    def die(self) -> None:
        """End every session."""
        self._process.close()

    def prepared_models(self) -> int:
        with RemoteDevice(self.endpoint) as device:
            return device.usage().prepared_models


class Site:
    """Three devices: npu takes TANH only, acc and the CPU take everything. The plan uses acc and npu, or acc alone."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        devices = [Mortal(directory, name, ratio) for name, ratio in ((NPU, 0.1), (ACC, 0.5), (CPU, 1.0))]
        self.npu, self.acc, self.cpu = devices
        for device in devices:
            device.start()
            stack.callback(device.die)
        self.fleet = Fleet({device.name: device.endpoint for device in devices})
        stack.callback(self.fleet.close)
        self._stack = stack

    def load(self, fallback: Fallback = Fallback.ALLOW, *pins: Pin) -> LoadedModel:
        """Load the model by NNAPI's rule."""
        options = Options(Strategy.NNAPI, pins, fallback=fallback)
        loaded = LoadedModel(prepare(imported(add_tanh()), self.fleet, (), options))
        self._stack.callback(loaded.close)
        return loaded


class Bound:
    """A binding of the model."""

    def __init__(self, loaded: LoadedModel) -> None:
        memory = create_ashmem(128)
        self._pool = open_pool(memory, writable=True)
        self._pool.write(0, X.view(np.uint8))
        self.context: ExecutionContext = loaded.bind(
            [TensorBinding("in0", DataLocation(0, 0, 8))],
            [TensorBinding("out0", DataLocation(0, 64, 8))],
            [memory],
            measure_timing=True,
        )

    def run(self) -> RunReport:
        self._pool.write(64, np.zeros(8, np.uint8))
        report = self.context.run()
        assert self._pool.read(64, 8).view(np.float32).tolist() == EXPECTED
        return report

    def devices(self) -> list[str]:
        """Run the model and return the devices of its steps, or an empty list if a step fell back."""
        report = self.run()
        return [] if report.fell_back else [step.device for step in report.steps]

    def wait_for(self, *devices: str) -> None:
        """Run the model until its steps are on these devices."""
        wait_until(lambda: self.devices() == list(devices), f"runs are on {devices}")
