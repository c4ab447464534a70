"""The runs of one model: which binding each takes, more memory for outputs, and opening the model again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.tensors import Tensor, stored_inputs
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_client.core.binding_runs import OutputTooSmallError
from nnhal_client.reports import RunReport
from nnhal_client.tensors import ReservedDimensions

CONCURRENCY = 8
"""How many runs of one model are under way at a time, unless the caller says otherwise."""
_CHANGES = 2
"""Changes of dimensions from run to run after which a binding is made for those to come."""


class RunnableBinding(Protocol):
    """Parts of a binding that a run needs."""

    @property
    def measures(self) -> bool:
        """Return whether its runs are measured."""

    @property
    def lost_run_channel(self) -> bool:
        """Return whether its runs were direct once and are no longer."""

    def takes(self, dimensions: Mapping[str, Dimensions]) -> bool:
        """Return whether its runs may be for these dimensions of open inputs."""

    @property
    def outputs(self) -> Mapping[str, Array]:
        """Views of the outputs."""

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs."""

    def room(self, name: str) -> int:
        """The bytes that an output has."""


class TurnEvent(Protocol):
    """An event of threading or asyncio."""

    def set(self) -> None:
        """Let the waiting run begin."""


B = TypeVar("B", bound=RunnableBinding)
E = TypeVar("E", bound=TurnEvent)


@dataclass(frozen=True, slots=True)
class Wait(Generic[E]):
    """Wait for the event: another run has to end first."""

    turn: E


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the model; the answer is the binding."""

    measure_timing: bool
    dimensions: Mapping[str, ReservedDimensions]


@dataclass(frozen=True, slots=True)
class Run(Generic[B]):
    """Run the binding; the answer is the report."""

    binding: B


@dataclass(frozen=True, slots=True)
class Reopen:
    """Open the model again, one run on behalf of all, unless ``generation`` has changed by then."""

    generation: int


Command = Wait[E] | Bind | Run[B] | Reopen
Commands = Generator[Command[E, B], Any, tuple[dict[str, Value], RunReport]]
"""A run as commands. The driver performs each one and sends its answer, or throws its error in.

To cancel the run, the driver closes the generator; but it lets a ``Run`` or a ``Bind`` that is under way end first,
since the devices write the memory of the binding.
"""


class ModelRuns(Generic[E, B]):
    """The runs of one model: at most ``concurrency`` at a time, each with a binding of its own.

    Bindings are kept for runs with the same dimensions of the inputs; if these change with each run, or one is empty,
    for all runs that have room in them. Drivers close the ``unwanted`` bindings before they bind and at the end of each
    run. Safe to use from several threads.
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        can_reopen: bool,
        concurrency: int,
        event: Callable[[], E],
    ) -> None:
        self._inputs, self._outputs = inputs, outputs
        self._can_reopen = can_reopen
        self._concurrency = concurrency
        self._event = event
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[E] = deque()
        self._idle: list[B] = []
        self._busy: dict[B, int] = {}
        self._unwanted: list[B] = []
        self._known: dict[str, Dimensions] = {}
        self._last: Mapping[str, Dimensions] = {}
        self._changes = 0
        """Runs one after the other that each had other dimensions than the one before."""
        self._detour = self._longest_detour = 0
        self._closed = False
        self.generation = 0
        """How often the model was opened again."""

    def run(self, inputs: Mapping[str, Value], measure_timing: bool) -> Commands[E, B]:
        """One inference, which ends with copies of the outputs and the report.

        An output that does not fit its memory gets more, and the inference another run. A model that the server has
        unloaded is opened again. Raises ValueError if the inputs are not what the model takes, and the errors of
        bindings.
        """
        generation = self.generation
        try:
            return (yield from self._run(inputs, measure_timing))
        except HalError as error:
            unloaded = error.status == ErrorStatus.DEVICE_UNAVAILABLE or self.generation != generation
            if not (self._can_reopen and unloaded):
                raise
        yield Reopen(generation)
        return (yield from self._run(inputs, measure_timing))

    def reopened(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Note that the model was opened again: earlier bindings are of no use, nor is what was known of outputs."""
        with self._lock:
            self.generation += 1
            self._inputs, self._outputs = inputs, outputs
            self._known.clear()
            self._unwanted += self._idle
            self._idle.clear()

    def unwanted(self) -> list[B]:
        """The bindings that are to be closed, each once."""
        if not self._unwanted:
            return []
        with self._lock:
            found, self._unwanted = self._unwanted, []
        return found

    def close(self) -> None:
        """Keep no binding any more. All are ``unwanted`` then, also those that are running."""
        with self._lock:
            self._closed = True
            self._unwanted += [*self._idle, *self._busy]
            self._idle.clear()
            self._busy.clear()

    def _run(self, inputs: Mapping[str, Value], measure_timing: bool) -> Commands[E, B]:
        arrays = stored_inputs(self._inputs, inputs)
        given = {tensor.name: arrays[tensor.name].shape for tensor in self._inputs if tensor.is_open}
        self._note(given)
        turn = self._begin()
        if turn is not None:
            yield from self._await(turn)
        try:
            while True:
                binding = self._take(given, measure_timing)
                if binding is None:
                    generation = self.generation
                    binding = yield Bind(measure_timing, {**self._known, **self._reserved(given)})
                    with self._lock:
                        self._busy[binding] = generation
                try:
                    binding.fill(arrays)
                    report = yield Run(binding)
                except OutputTooSmallError as error:
                    self._discard(binding)
                    if not self._learn(binding, error.dimensions):
                        raise
                except GeneratorExit:
                    self._keep(binding)
                    raise
                except BaseException:
                    self._discard(binding)
                    raise
                else:
                    outputs = {t.name: t.value(binding.outputs[t.name]) for t in self._outputs}
                    if self._detours(binding, report):
                        self._discard(binding)
                    else:
                        self._keep(binding)
                    return outputs, report
        finally:
            self._end()

    def _begin(self) -> E | None:
        """Begin a run. Returns the event of its turn if ``concurrency`` runs are under way."""
        with self._lock:
            if self._running < self._concurrency:
                self._running += 1
                return None
            turn = self._event()
            self._waiting.append(turn)
            return turn

    def _await(self, turn: E) -> Generator[Wait[E], Any, None]:
        try:
            yield Wait(turn)
        except BaseException:
            with self._lock:
                waits = turn in self._waiting
                if waits:
                    self._waiting.remove(turn)
            if not waits:
                self._end()
            raise

    def _end(self) -> None:
        with self._lock:
            if not self._waiting:
                self._running -= 1
                return
            turn = self._waiting.popleft()
        turn.set()

    def _take(self, given: Mapping[str, Dimensions], measure_timing: bool) -> B | None:
        """An idle binding that fits. If there is none, the oldest idle one makes room for a new one."""
        with self._lock:
            for number in range(len(self._idle) - 1, -1, -1):
                binding = self._idle[number]
                if binding.measures == measure_timing and binding.takes(given):
                    del self._idle[number]
                    self._busy[binding] = self.generation
                    return binding
            if self._idle:
                self._unwanted.append(self._idle.pop(0))
            return None

    def _reserved(self, given: Mapping[str, Dimensions]) -> Mapping[str, ReservedDimensions]:
        """Return the arguments of a binding for inputs of these dimensions: with room for others if they change with
        each run.
        """
        is_empty = any(0 in dimensions for dimensions in given.values())
        if self._changes < _CHANGES and not is_empty:
            return given
        return {
            tensor.name: [
                length if declared else (length, None)
                for length, declared in zip(given[tensor.name], tensor.dimensions, strict=True)
            ]
            if tensor.dimensions
            else given[tensor.name]
            for tensor in self._inputs
            if tensor.name in given
        }

    def _note(self, given: Mapping[str, Dimensions]) -> None:
        with self._lock:
            self._changes = self._changes + 1 if self._last and given != self._last else 0
            self._last = given

    def _keep(self, binding: B) -> None:
        with self._lock:
            generation = self._busy.pop(binding, None)
            if generation is None:  # ``close`` has given it to be closed
                return
            usable = generation == self.generation and not self._closed
            (self._idle if usable else self._unwanted).append(binding)

    def _discard(self, binding: B) -> None:
        with self._lock:
            if self._busy.pop(binding, None) is not None:
                self._unwanted.append(binding)

    def _detours(self, binding: B, report: RunReport) -> bool:
        """Return whether to try another binding, whose runs may be direct again.

        They may be once the lost device is back or the framework has a new plan. As nothing says when that is, it is
        tried after one run through the framework, then after 2, 4, 8 and so on.
        """
        lost = binding.lost_run_channel
        if not lost and (report.direct or binding.measures or not self._longest_detour):
            return False
        with self._lock:
            if lost:
                self._detour, self._longest_detour = 0, 1
                return True
            self._detour += 1
            if self._detour < self._longest_detour:
                return False
            self._detour, self._longest_detour = 0, 2 * self._longest_detour
            return True

    def _learn(self, binding: B, found: Mapping[str, Dimensions]) -> bool:
        """Note the dimensions that outputs need, and whether one needs more memory than it had in this binding."""
        grows = False
        with self._lock:
            for tensor in self._outputs:
                needed = tensor.bytes_of(found[tensor.name]) if tensor.name in found else 0
                known = tensor.bytes_of(self._known[tensor.name]) if tensor.name in self._known else 0
                if needed > known:
                    self._known[tensor.name] = found[tensor.name]
                grows |= needed > binding.room(tensor.name)
        return grows
