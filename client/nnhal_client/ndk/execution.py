"""Executions: arguments, ways to compute, and what is known afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType

from nnhal.errors import NnhalError
from nnhal.fence import FenceState
from nnhal.types import MAX_LOOP_TIMEOUT_NS, NO_DEADLINE, Operand, Timing
from nnhal.types.layout import Dimensions, combine, is_scalar
from nnhal_client.ndk.arguments import Buffer, UsableMemory
from nnhal_client.ndk.binding import Binding, Launch, Outcome
from nnhal_client.ndk.burst import Burst
from nnhal_client.ndk.compilation import Compilation
from nnhal_client.ndk.durations import DurationCode, deadline_after, require_duration
from nnhal_client.ndk.event import Event
from nnhal_client.ndk.given import Given
from nnhal_client.ndk.hints import HintList
from nnhal_client.ndk.lifecycle import Lifecycle, State
from nnhal_client.ndk.result import (
    UNKNOWN_DURATION,
    NeuralNetworksError,
    NoDurationError,
    OutputInsufficientSizeError,
    ResultCode,
)


class Execution:
    """ANeuralNetworksExecution. Use as a context, or ``close`` it. Safe to use from several threads.

    Buffers are read when it is computed, and written when it is known to have ended well: after ``compute``, and for
    events when they were waited for. Methods raise NeuralNetworksError, BAD_STATE for what its state does not allow.
    """

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE where the compilation is not finished."""
        self._model = compilation.loaded
        self._compilation = compilation
        self._inputs = Given(compilation.model.main, is_output=False)
        self._outputs = Given(compilation.model.main, is_output=True)
        self._life = Lifecycle()
        self._measures = False
        self._timeout_ns = 0
        self._loop_timeout_ns: int | None = None
        self._binding: Binding | None = None
        self._hints = HintList()
        self._running: Future[None] | None = None

    def set_reusable(self, reusable: bool) -> None:
        """Whether it may be computed more than once; not unless it is set."""
        with self._life.before_compute():
            self._life.reusable = reusable

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """Whether buffers may be longer than what lies in them; not unless it is set. Holds for what is set later."""
        with self._life.before_compute():
            self._inputs.padded = self._outputs.padded = enable

    def set_measure_timing(self, measure: bool) -> None:
        """Whether it is measured. Raises BAD_DATA unless exactly one device is named."""
        with self._life.before_compute():
            self._compilation.require_one_device("timing")
            self._measures = measure

    def set_timeout(self, duration_ns: int) -> None:
        """What it may take, 0 for any time. Raises BAD_DATA unless exactly one device is named."""
        with self._life.before_compute():
            self._compilation.require_one_device("a timeout")
            self._timeout_ns = require_duration(duration_ns)

    def set_loop_timeout(self, duration_ns: int) -> None:
        """What one activation of a WHILE may take; more than the HAL's maximum is the maximum."""
        with self._life.before_compute():
            self._loop_timeout_ns = min(require_duration(duration_ns), MAX_LOOP_TIMEOUT_NS)

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Hint at something that an extension defines. Raises BAD_DATA as ``Compilation.add_extension_attribute``."""
        with self._life.before_compute():
            self._compilation.add_hint(self._hints, extension, code, data)

    def set_input(self, index: int, buffer: Buffer | None, type: Operand | None = None) -> None:  # noqa: A002
        """A buffer with an input's value; None leaves an optional input out.

        ``type`` completes the dimensions that the model leaves open. Raises BAD_DATA where it contradicts the model or
        says less, where dimensions are not all known, and where the buffer is not of their size.
        """
        with self._changing():
            self._inputs.set_buffer(index, buffer, type)

    def set_output(self, index: int, buffer: Buffer | None, type: Operand | None = None) -> None:  # noqa: A002
        """A buffer for an output. Raises as ``set_input``, but dimensions may stay open."""
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
        """Memory with an input's value: ``length`` bytes from ``offset``, all of it where both are 0."""
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
        """Memory for an output, as ``set_input_from_memory``."""
        with self._changing():
            self._outputs.set_memory(index, memory, offset, length, type)

    def compute(self) -> None:
        """Compute it, and return when it has ended. Raises what the device's error maps to."""
        self._begin()
        self._run(deadline_after(self._timeout_ns))

    def burst_compute(self, burst: Burst) -> None:
        """As ``compute``, in a burst. Raises BAD_DATA for that of another compilation, BAD_STATE where it is busy."""
        if burst.model is not self._model:
            raise NeuralNetworksError(ResultCode.BAD_DATA, "the burst is of another compilation")
        if not burst.busy.acquire(blocking=False):
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the burst runs another execution")
        try:
            self.compute()
        finally:
            burst.busy.release()

    def start_compute(self) -> Event:
        """Compute it while the caller goes on; the event says when it has ended, and how."""
        self._begin()
        future: Future[None] = Future()
        event = Event.of_future(future)
        deadline_ns = deadline_after(self._timeout_ns)

        def run() -> None:
            try:
                self._run(deadline_ns)
            except NeuralNetworksError as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        self._running = future
        threading.Thread(target=run, name="ndk-execution", daemon=True).start()
        return event

    def start_compute_with_dependencies(self, dependencies: Sequence[Event | None] = (), duration_ns: int = 0) -> Event:
        """Launch it, to begin when all dependencies have happened and to take ``duration_ns`` at most from then on.

        Raises BAD_DATA for a duration unless exactly one device is named, and what the device's error maps to where it
        does not take the launch; there is no event then.
        """
        if duration_ns:
            self._compilation.require_one_device("a duration")
        require_duration(duration_ns)
        fences = [event.sync_fence for event in dependencies if event is not None]
        if len(fences) < len(dependencies):
            raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, "a dependency is no event")
        self._begin()
        try:
            launch = self._bound().launch(fences, deadline_after(self._timeout_ns), duration_ns or NO_DEADLINE)
        except NnhalError as error:
            raise self._failed(error) from error
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

        Raises BAD_STATE before, or where it failed; BAD_DATA for a scalar; where outputs did not fit their buffers,
        OutputInsufficientSizeError with what is known for an output that did not.
        """
        dimensions = self._dimensions_of(index)
        if is_scalar(self._outputs.operand(index).type):
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"output {index} is a scalar")
        return dimensions

    def output_operand_rank(self, index: int) -> int:
        """The rank of an output, 0 for a scalar. Raises as ``output_operand_dimensions``."""
        return len(self._dimensions_of(index))

    def duration(self, code: DurationCode) -> int:
        """Nanoseconds that it took, UNKNOWN_DURATION where the device does not say. The fenced times of an execution
        that was not launched with dependencies are the plain ones.

        Raises NoDurationError where timing was not asked for, or it has not ended well.
        """
        with self._life.looking() as state:
            outcome = self._life.outcome
            if not self._measures or state is not State.COMPLETED or self._life.result != ResultCode.NO_ERROR:
                how = "timing was not asked for" if not self._measures else f"it is {state.value}"
                raise NoDurationError(f"no time of the execution: {how}, {self._life.result.name}")
        timing, fenced_timing = (outcome.timing, outcome.timing_fenced) if outcome else (Timing(), Timing())
        fenced = code in (DurationCode.FENCED_ON_HARDWARE, DurationCode.FENCED_IN_DRIVER)
        timing = fenced_timing if fenced else timing
        on_device = code in (DurationCode.ON_HARDWARE, DurationCode.FENCED_ON_HARDWARE)
        found = timing.time_on_device_ns if on_device else timing.time_in_driver_ns
        return UNKNOWN_DURATION if found < 0 else found

    def close(self) -> None:
        """Give it up, when it has ended; harmless when repeated."""
        if self._running is not None:
            self._running.exception()
        binding, self._binding = self._binding, None
        if binding is not None:
            binding.close()
            with self._life.looking():  # a launch that nobody has waited for has ended now
                pass

    def __enter__(self) -> Execution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the arguments; what they were bound to is of no use then."""
        with self._life.between_computes():
            yield
            binding, self._binding = self._binding, None
            if binding is not None:
                binding.close()

    def _begin(self) -> None:
        with self._life.between_computes():
            missing = [*self._inputs.missing, *self._outputs.missing]
            if missing:
                raise NeuralNetworksError(ResultCode.BAD_DATA, f"not set: {', '.join(missing)}")
            self._life.begin()

    def _bound(self) -> Binding:
        if self._binding is None:
            inputs, outputs = self._inputs.all, self._outputs.all
            self._compilation.consistency.require(
                [argument.dimensions for argument in inputs], [argument.dimensions for argument in outputs]
            )
            self._binding = Binding(
                self._compilation.framework,
                self._model,
                inputs,
                outputs,
                self._measures,
                self._loop_timeout_ns,
                self._hints.hints,
            )
        return self._binding

    def _run(self, deadline_ns: int) -> None:
        try:
            outcome = self._bound().run(deadline_ns)
        except NnhalError as error:
            raise self._failed(error) from error
        self._ended(outcome)

    def _conclude(self, launch: Launch, future: Future[None]) -> None:
        """Note how a launched run ended, if it has."""
        if launch.fence.state is FenceState.PENDING:
            return
        try:
            self._ended(launch.outcome())
        except NeuralNetworksError as error:
            future.set_exception(error)
        except NnhalError as error:
            future.set_exception(self._failed(error))
        else:
            future.set_result(None)

    def _ended(self, outcome: Outcome) -> None:
        result = ResultCode.from_status(outcome.status)
        self._life.end(result, outcome)
        if result != ResultCode.NO_ERROR:
            raise NeuralNetworksError(result, outcome.message)

    def _failed(self, error: NnhalError) -> NeuralNetworksError:
        failure = NeuralNetworksError.from_error(error)
        self._life.end(failure.code)
        return failure

    def _dimensions_of(self, index: int) -> Dimensions:
        """What is known of an output's dimensions."""
        operand = self._outputs.operand(index)
        with self._life.looking() as state:
            result, outcome = self._life.result, self._life.outcome
            failed = result not in (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE)
            if state is not State.COMPLETED or failed or outcome is None:
                raise NeuralNetworksError(
                    ResultCode.BAD_STATE,
                    f"no dimensions of output {index}: the execution is {state.value}, {result.name}",
                )
            name = f"output{index}"
            stated = combine(operand.dimensions, self._outputs.all[index].dimensions) or ()
            dimensions = outcome.report.dimensions.get(name, stated)
            if name in outcome.insufficient:
                raise OutputInsufficientSizeError(f"output {index} did not fit its buffer", dimensions)
            return dimensions
