"""Backend files of drivers that compute wrongly in a known place."""

from __future__ import annotations

from pathlib import Path

_SOURCE = """
import os
import signal
import threading
from dataclasses import replace

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandLifeTime, OperationType
from nnhal.support import Unsupported
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DONE

BACKEND_ID = "{name}"
API_VERSION = (1, 0)


class Faulty:
    name = BACKEND_ID
    version = "faulty-1.0"
    extensions = ()

    def __init__(self, options):
        self._reference = CpuRef(options)
        self.type = self._reference.type
        self.capabilities = self._reference.capabilities
        self.memory = self._reference.memory
        self.modelled_timing = self._reference.modelled_timing
        self.number_of_cache_files = self._reference.number_of_cache_files
        self.backend = self._reference.backend

    def supported_operations(self, model):
        answers = self._reference.supported_operations(model)
        if {asked!r} in [operation.type.name for operation in model.model.main.operations]:
            signal.raise_signal(signal.SIGSEGV)
        return [
            Unsupported("OP", operation.type.name, "others") if operation.type.name in {declined!r} else answer
            for operation, answer in zip(model.model.main.operations, answers, strict=True)
        ]

    def prepare(self, model, options):
        main = model.model.main
        names = [operation.type.name for operation in main.operations]
        if names == [{deadly!r}]:
            os._exit(9)
        if {crashing!r} in names:
            signal.raise_signal(signal.SIGSEGV)
        if {endless!r} in names:
            return Endless()
        if {falling!r} in names:
            return Falling()
        operations = []
        for operation in main.operations:
            inside = main.operands[operation.inputs[0]].lifetime == OperandLifeTime.TEMPORARY_VARIABLE
            other = {instead!r}.get(operation.type.name)
            if other and (inside or not {only_inside!r}):
                operation = replace(operation, type=OperationType[other])
            operations.append(operation)
        branches = tuple(
            replace(
                graph,
                operations=tuple(
                    replace(inner, type=OperationType[{instead!r}.get(inner.type.name, inner.type.name)])
                    for inner in graph.operations
                ),
            )
            for graph in model.model.referenced
        )
        changed = replace(model.model, main=replace(main, operations=tuple(operations)), referenced=branches)
        return self._reference.prepare(ResolvedModel(changed, model.constants, model.names), options)


class Endless:
    runs_first = {runs_first}

    def bind(self, inputs, outputs):
        return self

    def run(self, control):
        if not self.runs_first:
            threading.Event().wait()
        self.runs_first -= 1
        return DONE


class Falling:
    def bind(self, inputs, outputs):
        return self

    def run(self, control):
        signal.raise_signal(signal.SIGABRT)


def create_backend(options):
    return Faulty(options)
"""


def write_faulty_driver(
    directory: Path,
    name: str,
    instead: dict[str, str] | None = None,
    declined: tuple[str, ...] = (),
    only_inside: bool = False,
    deadly: str = "",
    endless: str = "",
    runs_first: int = 0,
    crashing: str = "",
    falling: str = "",
    asked: str = "",
) -> None:
    """Write the backend file of a driver that computes some operations as others, by their names.

    With ``only_inside`` it does so only if the operation reads what no client can see, as a compiler that fuses. It
    declines the operations ``declined``. Its process ends if it is to prepare the operation ``deadly`` alone. Executing
    the operation ``endless`` never ends, but for the first ``runs_first`` times.
    Its process is killed by SIGSEGV if it is to prepare the operation ``crashing``, alone or with others, and by
    SIGABRT if it is to run ``falling``, by SIGSEGV also if it is asked about ``asked``.
    """
    directory.mkdir(exist_ok=True)
    source = _SOURCE.format(
        name=name,
        instead=instead or {},
        declined=declined,
        only_inside=only_inside,
        deadly=deadly,
        endless=endless,
        runs_first=runs_first,
        crashing=crashing,
        falling=falling,
        asked=asked,
    )
    (directory / f"Acme_{name}_backend.py").write_text(source)
