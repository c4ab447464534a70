"""Clients of a machine that hand over what its stripes ask for."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal_cascade.geometry.box import Box
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.agreement import inputs_of


class Client:
    """Hands an input over, and keeps nothing that it has handed over."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.places: list[int] = []
        """Where each element lies in the input, in the order in which they were asked for."""

    def __call__(self, box: Box) -> Array:
        rows, columns, channels = (slice(*interval) for interval in box)
        shape = (1, 1, 1, *self.values.shape)[-3:]
        places = np.arange(self.values.size).reshape(shape)[rows, columns, channels]
        self.places += places.reshape(-1).tolist()
        return self.values.reshape(shape)[rows, columns, channels].copy()


def handed_over(model: ResolvedModel, schedule: Schedule) -> list[Client]:
    """Run a schedule by way of its bytes; it takes what was planned and computes what cpu_ref does."""
    inputs = inputs_of(model)
    clients = [Client(values) for values in inputs]
    stream = from_bytes(to_bytes(emit(schedule)))
    outputs, measured = Machine(stream, schedule.graph, model, schedule.system, checked=True).run(clients)
    for got, wanted in zip(outputs, Interpreter(model).run(0, inputs, Control()), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert (measured.peak, measured.cycles) == (schedule.peak, schedule.cycles)
    return clients
