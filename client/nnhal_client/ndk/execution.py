"""Executions: their arguments, the ways to compute them, and their results."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from enum import IntEnum

from nnhal.contexts import Closing
from nnhal.errors import NnhalError
from nnhal.fence import FenceState
from nnhal.threads import BriefThread
from nnhal.types import MAX_LOOP_TIMEOUT_NS, NO_DEADLINE, Operand, Timing
from nnhal.types.layout import Dimensions, combine, is_scalar
from nnhal_client.ndk.arguments import ArgumentList, Buffer, UsableMemory
from nnhal_client.ndk.binding import (
    Arguments,
    BindingSettings,
    ExecutionBinding,
    ExecutionOutcome,
    LaunchedExecution,
)
from nnhal_client.ndk.compilation import Compilation, HintList, deadline_after, require_duration
from nnhal_client.ndk.event import Event
from nnhal_client.ndk.lifecycle import ExecutionState, Lifecycle
from nnhal_client.ndk.result import (
    UNKNOWN_DURATION,
    NeuralNetworksError,
    NoDurationError,
    OutputInsufficientSizeError,
    ResultCode,
)


class DurationCode(IntEnum):
    """Which time of an execution: the ANEURALNETWORKS_*DURATION_* codes."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


class Burst:
    """ANeuralNetworksBurst: for executions of one compilation that follow one another closely. One at a time."""

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE if the compilation is not finished."""
        compilation.require_ready()
        self.compilation = compilation
        self.busy = threading.Lock()


class Execution(Closing):
    """ANeuralNetworksExecution. Use as a context, or ``close`` it. Safe to use from several threads.

    Buffers are read when it is computed, and written once it is known to have succeeded: when ``compute`` returns, or
    when an application has waited for the event. Methods raise NeuralNetworksError, BAD_STATE if the state of the
    execution does not allow the call.
    """

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE if the compilation is not finished."""
        compilation.require_ready()
        self._compilation = compilation
        self._inputs = ArgumentList(compilation.model.main, is_output=False)
        self._outputs = ArgumentList(compilation.model.main, is_output=True)
        self._life = Lifecycle()
        self._measures = False
        self._timeout_ns = 0
        self._loop_timeout_ns: int | None = None
        self._binding: ExecutionBinding | None = None
        self._arguments = Arguments((), ())
        """Those of the binding."""
        self._hints = HintList()
        self._running: Future[None] | None = None

    def set_reusable(self, reusable: bool) -> None:
        """Set whether it may be computed more than once; by default it may not."""
        with self._life.before_compute():
            self._life.reusable = reusable

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """Set whether buffers that are set later may be longer than what lies in them; by default they may not."""
        with self._life.before_compute():
            self._inputs.padded = self._outputs.padded = enable

    def set_measure_timing(self, measure: bool) -> None:
        """Set whether it is measured. Raises BAD_DATA unless exactly one device is named."""
        with self._life.before_compute():
            self._compilation.require_one_device("timing")
            self._measures = measure

    def set_timeout(self, duration_ns: int) -> None:
        """Set the time that it may take, 0 for any. Raises BAD_DATA unless exactly one device is named."""
        with self._life.before_compute():
            self._compilation.require_one_device("a timeout")
            self._timeout_ns = require_duration(duration_ns)

    def set_loop_timeout(self, duration_ns: int) -> None:
        """Set the time that one activation of a WHILE may take, at most the HAL's maximum."""
        with self._life.before_compute():
            self._loop_timeout_ns = min(require_duration(duration_ns), MAX_LOOP_TIMEOUT_NS)

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Give the device a hint. Raises BAD_DATA as ``Compilation.add_extension_attribute``."""
        with self._life.before_compute():
            self._compilation.add_hint(self._hints, extension, code, data)

    def set_input(self, index: int, buffer: Buffer | None, type: Operand | None = None) -> None:  # noqa: A002
        """Set an input to the value in a buffer; None omits an optional input.

        ``type`` completes the dimensions that the model does not say. Raises BAD_DATA if it contradicts the model or
        says less, if a dimension stays unknown, and if the buffer has another size than they need.
        """
        with self._changing():
            self._inputs.set_buffer(index, buffer, type)

    def set_output(self, index: int, buffer: Buffer | None, type: Operand | None = None) -> None:  # noqa: A002
        """Set the buffer of an output. Raises as ``set_input``, but dimensions may stay unknown."""
        with self._changing():
            self._outputs.set_buffer(index, buffer, type)

    def set_input_from_memory(
        self,
        index: int,
        memory: UsableMemory,
        offset: int = 0,
        length: int = 0,
        type: Operand | None = None,  # noqa: A002
    ) -> None:
        """Set an input to the value in memory: ``length`` bytes from ``offset``, all of it if both are 0."""
        with self._changing():
            self._inputs.set_memory(index, memory, offset, length, type)

    def set_output_from_memory(
        self,
        index: int,
        memory: UsableMemory,
        offset: int = 0,
        length: int = 0,
        type: Operand | None = None,  # noqa: A002
    ) -> None:
        with self._changing():
            self._outputs.set_memory(index, memory, offset, length, type)

    def compute(self) -> None:
        """Compute it, and return when it has ended. Raises what the device's error maps to."""
        self._begin()
        self._run(deadline_after(self._timeout_ns))

    def burst_compute(self, burst: Burst) -> None:
        """As ``compute``, in a burst. Raises BAD_DATA if it is of another compilation, BAD_STATE if it is busy."""
        if burst.compilation is not self._compilation:
            raise NeuralNetworksError(ResultCode.BAD_DATA, "the burst is of another compilation")
        if not burst.busy.acquire(blocking=False):
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the burst runs another execution")
        try:
            self.compute()
        finally:
            burst.busy.release()

    def start_compute(self) -> Event:
        """Compute it while the caller goes on; the event is its end, and raises what ``compute`` would."""
        self._begin()
        future: Future[None] = Future()
        deadline_ns = deadline_after(self._timeout_ns)

        def run() -> None:
            with _resolving(future):
                self._run(deadline_ns)

        with self._failing():
            event = Event.of_future(future)
            BriefThread(run, "ndk-execution").start()
        self._running = future
        return event

    def start_compute_with_dependencies(self, dependencies: Sequence[Event | None] = (), duration_ns: int = 0) -> Event:
        """Launch it: it begins when all dependencies have happened, and may take ``duration_ns`` from then on.

        Raises BAD_DATA for a duration unless exactly one device is named, and what the device's error maps to if it
        refuses the launch.
        """
        if duration_ns:
            self._compilation.require_one_device("a duration")
        require_duration(duration_ns)
        fences = [event.sync_fence for event in dependencies if event is not None]
        if len(fences) < len(dependencies):
            raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, "a dependency is no event")
        self._begin()
        with self._failing():
            binding, deadline_ns = self._bound(), deadline_after(self._timeout_ns)
            launch = binding.launch(self._arguments, fences, deadline_ns, duration_ns or NO_DEADLINE)
        future: Future[None] = Future()

        def conclude() -> None:
            with self._life.looking():
                pass
            future.result()

        with self._life.looking():
            self._life.poll = lambda: self._conclude(launch, future)
        return Event(launch.fence, conclude)

    def output_operand_dimensions(self, index: int) -> Dimensions:
        """The dimensions of an output after it was computed.

        Raises BAD_STATE before, or if it failed; BAD_DATA for a scalar; OutputInsufficientSizeError if this output did
        not fit its buffer.
        """
        dimensions = self._dimensions_of(index)
        if is_scalar(self._outputs.operand(index).type):
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"output {index} is a scalar")
        return dimensions

    def output_operand_rank(self, index: int) -> int:
        """The rank of an output, 0 for a scalar. Raises as ``output_operand_dimensions``."""
        return len(self._dimensions_of(index))

    def duration(self, code: DurationCode) -> int:
        """The nanoseconds that it took, UNKNOWN_DURATION if the device does not say. The fenced times of an execution
        that was not launched with dependencies are the plain ones.

        Raises NoDurationError if timing was not set, or if it has not succeeded.
        """
        with self._life.looking() as state:
            outcome = self._life.outcome
            if not self._measures or state is not ExecutionState.COMPLETED or self._life.result != ResultCode.NO_ERROR:
                how = "timing was not asked for" if not self._measures else f"it is {state.value}"
                raise NoDurationError(f"no time of the execution: {how}, {self._life.result.name}")
        timing, fenced_timing = (outcome.timing, outcome.timing_fenced) if outcome else (Timing(), Timing())
        fenced = code in (DurationCode.FENCED_ON_HARDWARE, DurationCode.FENCED_IN_DRIVER)
        timing = fenced_timing if fenced else timing
        on_device = code in (DurationCode.ON_HARDWARE, DurationCode.FENCED_ON_HARDWARE)
        found = timing.time_on_device_ns if on_device else timing.time_in_driver_ns
        return UNKNOWN_DURATION if found < 0 else found

    def close(self) -> None:
        """Release it, after it has ended. Harmless when repeated."""
        if self._running is not None:
            self._running.exception()
        with self._life.looking() as state:  # ends a launch that the application has not waited for
            self._unbind(is_free=state is not ExecutionState.RUNNING)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the arguments, for which it may need another binding."""
        with self._life.between_computes():
            yield
            self._unbind(is_free=True)

    def _begin(self) -> None:
        with self._life.between_computes():
            missing = [*self._inputs.missing, *self._outputs.missing]
            if missing:
                raise NeuralNetworksError(ResultCode.BAD_DATA, f"not set: {', '.join(missing)}")
            self._life.begin()

    def _bound(self) -> ExecutionBinding:
        if self._binding is None:
            self._arguments = Arguments(self._inputs.all, self._outputs.all)
            settings = BindingSettings(self._measures, self._loop_timeout_ns, self._hints.hints)
            self._binding = self._compilation.bound(self._arguments, settings)
        return self._binding

    def _unbind(self, is_free: bool) -> None:
        """Leave the binding to the next execution if it ``is_free``: nothing runs on it."""
        binding, self._binding = self._binding, None
        if binding is not None and is_free:
            self._compilation.give_back(binding)
        elif binding is not None:
            binding.close()

    def _run(self, deadline_ns: int) -> None:
        with self._failing():
            outcome = self._bound().run(self._arguments, deadline_ns)
        self._ended(outcome)

    def _conclude(self, launch: LaunchedExecution, future: Future[None]) -> None:
        if launch.fence.state is FenceState.PENDING:
            return
        with _resolving(future):
            with self._failing():
                outcome = launch.outcome()
            self._ended(outcome)

    def _ended(self, outcome: ExecutionOutcome) -> None:
        result = ResultCode.from_status(outcome.status)
        self._life.end(result, outcome)
        if result != ResultCode.NO_ERROR:
            raise NeuralNetworksError(result, outcome.message)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """End the execution if the block raises. Errors of nnhal and of the system become NeuralNetworksError."""
        try:
            yield
        except (NnhalError, OSError) as error:
            failure = NeuralNetworksError.from_error(error)
            self._life.end(failure.code)
            raise failure from error
        except BaseException:
            self._life.end(ResultCode.OP_FAILED)
            raise

    def _dimensions_of(self, index: int) -> Dimensions:
        """The dimensions of an output, as far as they are known."""
        operand = self._outputs.operand(index)
        with self._life.looking() as state:
            result, outcome = self._life.result, self._life.outcome
            failed = result not in (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE)
            if state is not ExecutionState.COMPLETED or failed or outcome is None:
                raise NeuralNetworksError(
                    ResultCode.BAD_STATE,
                    f"no dimensions of output {index}: the execution is {state.value}, {result.name}",
                )
            name = f"output{index}"
            stated = combine(operand.dimensions, self._outputs.all[index].dimensions) or ()
            dimensions = outcome.dimensions.get(name, stated)
            if name in outcome.insufficient:
                raise OutputInsufficientSizeError(f"output {index} did not fit its buffer", dimensions)
            return dimensions


@contextmanager
def _resolving(future: Future[None]) -> Iterator[None]:
    """Resolve a future when the block ends, whatever it raises; otherwise ``wait`` and ``close`` would hang."""
    try:
        yield
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:
        future.set_exception(error)
        raise
    else:
        future.set_result(None)
