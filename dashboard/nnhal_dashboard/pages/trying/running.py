"""The runs of a trial, in a session of their own, which ends with them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from nnhal.errors import NnhalError, TransportError
from nnhal.extensions.values import Value
from nnhal.remote.alarms import ALARMS
from nnhal.tensors import Tensor, stored_inputs
from nnhal.types.layout import Dimensions
from nnhal_client import Framework, Model, OutputTooSmallError, RunReport
from nnhal_client.binding import Binding

_AT_A_TIME = 4
"""Trials, so that their tensors take a limited share of memory."""
_PLANNING_SECONDS = 60.0
"""The time that a framework may take beyond the deadline, for planning and for compiling."""
_MOST_BINDINGS = 4
"""A model with outputs of unknown dimensions is bound again while they do not fit."""
_places = threading.BoundedSemaphore(_AT_A_TIME)


@dataclass(frozen=True, slots=True)
class TrialRun:
    """Result of the runs of a trial."""

    steps: tuple[str, ...]
    """The device of each step."""
    outputs: tuple[tuple[Tensor, Value], ...]
    report: RunReport
    """The report of the run that took the median time."""
    durations_ns: tuple[int, ...]
    """The durations of all runs, as the client saw them, in their order."""


def run_trial(
    directory: str | os.PathLike[str],
    name: str,
    version: str,
    inputs: Mapping[str, Value],
    deadline_seconds: float,
    runs: int,
) -> TrialRun:
    """Open a model of the framework in ``directory``, and run it ``runs`` times, which may take so long together.

    Raises ValueError if the inputs do not fit, HalError if a run fails or misses the deadline, and TransportError if
    the framework is silent or too many trials are under way.
    """
    with _place(), _session(directory, deadline_seconds) as session, session.open(name, version) as model:
        return _run(model, inputs, deadline_seconds, runs)


def _run(model: Model, inputs: Mapping[str, Value], deadline_seconds: float, runs: int) -> TrialRun:
    arrays = stored_inputs(model.inputs, inputs)
    known: dict[str, Dimensions] = {tensor.name: arrays[tensor.name].shape for tensor in model.inputs if tensor.is_open}
    begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    deadline = begun + round(deadline_seconds * 1e9)
    with ExitStack() as bindings:
        binding = bindings.enter_context(model.bind(measure_timing=True, dimensions=known))
        binding.fill(arrays)
        bound = 1
        reports: list[RunReport] = []
        while len(reports) < runs:
            try:
                reports.append(binding.run(deadline))
            except OutputTooSmallError as error:
                if bound == _MOST_BINDINGS:
                    raise
                bindings.close()
                known |= error.dimensions
                binding, bound = bindings.enter_context(model.bind(True, known)), bound + 1
                binding.fill(arrays)
        return TrialRun(model.steps, _outputs(model, binding), *_median(reports))


def _outputs(model: Model, binding: Binding) -> tuple[tuple[Tensor, Value], ...]:
    return tuple((tensor, tensor.value(binding.outputs[tensor.name])) for tensor in model.outputs)


def _median(reports: list[RunReport]) -> tuple[RunReport, tuple[int, ...]]:
    ordered = sorted(reports, key=took_ns)
    return ordered[(len(ordered) - 1) // 2], tuple(took_ns(report) for report in reports)


def took_ns(report: RunReport) -> int:
    """Return how long a run took, as the client saw it."""
    return report.answered_ns - report.called_ns


@contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(blocking=False):
        raise TransportError(f"{_AT_A_TIME} trials are under way, the most at a time: try again when one has ended")
    try:
        yield
    finally:
        _places.release()


@contextmanager
def _session(directory: str | os.PathLike[str], deadline_seconds: float) -> Iterator[Framework]:
    """Open a session that is closed when its time is over: a framework that is silent holds nobody up for ever."""
    seconds = deadline_seconds + _PLANNING_SECONDS
    with Framework(directory) as session:
        over = threading.Event()

        def give_up() -> None:
            over.set()
            session.close()

        try:
            with ALARMS.set(seconds, give_up):
                yield session
        except NnhalError as error:
            if over.is_set():
                raise TransportError(f"the framework has not answered for {seconds:.0f} s") from error
            raise
