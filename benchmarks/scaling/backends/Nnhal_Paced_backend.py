"""Paced: cpu_acc, each of whose runs takes a given time, in which it needs no processor.

A machine that runs two hosts has no more processors than for one. With this device a host's limit is its device, as it
is where accelerators are real, and two hosts can be shown to do what one cannot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import (
    Argument,
    BoundWorkload,
    Control,
    Driver,
    DriverOptions,
    Outcome,
    PrepareOptions,
    Workload,
)

BACKEND_ID = "Paced"
API_VERSION = (1, 0)
_OPTION = "milliseconds"


class _PacedRun:
    """A bound workload whose runs last."""

    def __init__(self, bound: BoundWorkload, seconds: float) -> None:
        self._bound = bound
        self._seconds = seconds

    def run(self, control: Control) -> Outcome:
        end = time.monotonic() + self._seconds
        outcome = self._bound.run(control)
        time.sleep(max(0.0, end - time.monotonic()))
        return outcome


class _PacedWorkload:
    def __init__(self, workload: Workload, seconds: float) -> None:
        self._workload = workload
        self._seconds = seconds

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        return _PacedRun(self._workload.bind(inputs, outputs), self._seconds)


class Paced:
    """Supports what cpu_acc does. Option ``milliseconds``: what each operation of a model takes."""

    name = BACKEND_ID
    version = "nnhal-paced-1.0"
    type = CpuAcc.type
    capabilities = CpuAcc.capabilities
    modelled_timing = CpuAcc.modelled_timing
    extensions = CpuAcc.extensions
    number_of_cache_files = CpuAcc.number_of_cache_files
    memory = CpuAcc.memory
    backend = CpuAcc.backend

    def __init__(self, options: DriverOptions) -> None:
        options.require_known(self.name, _OPTION)
        self._seconds = float(options.extra.get(_OPTION, "10")) / 1e3
        self._cpu = CpuAcc(DriverOptions(threads=options.threads))

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return self._cpu.supported_operations(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        return _PacedWorkload(self._cpu.prepare(model, options), self._seconds * len(model.model.main.operations))


def create_backend(options: DriverOptions) -> Driver:
    return Paced(options)
