"""A model that a framework has loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Literal

from nnhal.contexts import Closing
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.remote.calls import Calls
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.binding import Binding, BindingOptions
from nnhal_client.core.model_runs import CONCURRENCY, Bind, Command, ModelRuns, Reopen, Run, Wait
from nnhal_client.core.native_model import NativeModel
from nnhal_client.explanation import Explanation
from nnhal_client.memory import DomainMemory
from nnhal_client.reports import RunReport
from nnhal_client.tensors import ReservedDimensions


class Model(NativeModel, Closing):
    """A model that the session has loaded, or one of the server's repository. Use as a context.

    It may run in several threads: each run that is under way has a binding of its own.
    """

    transport: Literal["native"] = "native"
    """How tensors travel: not at all, they lie in memory that client and devices share."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        answer: wire.ModelInfo | wire.OpenModelResponse,
        opened: wire.OpenModelRequest | None = None,
        concurrency: int = CONCURRENCY,
    ) -> None:
        super().__init__(calls, stub, answer, opened)
        self._concurrency = concurrency
        self._runs: ModelRuns[threading.Event, Binding] = ModelRuns(
            self.inputs, self.outputs, self.can_reopen, concurrency, threading.Event
        )
        self._reopening = threading.Lock()
        self._given: dict[frozenset[str], Model] = {}
        """The model with optional inputs as inputs."""

    def explain(self) -> Explanation:
        """Explain why each operation is on its device, and what each edge costs."""
        return self._explain()

    def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, ReservedDimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> Binding:
        """Shared memory for all inputs and outputs, ready to run.

        ``dimensions`` are those of inputs whose dimensions the model does not say; the framework prepares a plan for
        them, which may take as long as loading, and outputs get the memory that they need by it. Dimensions of outputs
        that depend on values, if known, size their memory. An input that has a default is bound if ``dimensions`` name
        it. ``memories``, by input or output, take the place of shared
        memory: the binding has no views of them. With ``direct`` runs go straight to the device if plan and framework
        allow that and nothing is measured.
        Raises ValueError if dimensions of an input are missing, HalError if a device refuses.
        """
        model = self._with_given(dimensions or {})
        return model._bind(BindingOptions(measure_timing, dimensions or {}, memories or {}, direct))

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference: copies the inputs into shared memory, runs, and returns copies of the outputs. Inputs with
        defaults may be left out.

        Raises ValueError if the inputs are not what the model takes, or if it has a state, which only a binding keeps;
        HalError if a device refuses.
        """
        return self.run_with_report(inputs, measure_timing=False)[0]

    def run_with_report(
        self, inputs: Mapping[str, Value], measure_timing: bool = True
    ) -> tuple[dict[str, Value], RunReport]:
        """As ``run``, with the report. An output that does not fit its memory gets more, and the inference another run.

        A model of the server's repository that was unloaded and loaded again is opened again.
        """
        self._require_no_state()
        if self._optional_among(inputs):
            return self._run_given(inputs, measure_timing)
        commands = self._runs.run(inputs, measure_timing)
        try:
            command = next(commands)
            while True:
                try:
                    answer = self._perform(command)
                except BaseException as error:
                    command = commands.throw(error)
                else:
                    command = commands.send(answer)
        except StopIteration as end:
            ended: tuple[dict[str, Value], RunReport] = end.value
            return ended
        finally:
            self._close_unwanted()

    def reopen(self) -> None:
        """Open it again after the server has unloaded it. Raises HalError if the server has not loaded it again."""
        earlier = self.session_name
        self._describe(self._opened_again())
        self._runs.reopened(self.inputs, self.outputs)
        self._forget_given()
        self._close_unwanted()
        self._release(earlier)

    def unload(self) -> None:
        """Release it in the framework and on the devices. Runs that are under way fail."""
        self._runs.close()
        self._forget_given()
        self._close_unwanted()
        self._is_unloaded = True
        self._release(self.session_name)

    def close(self) -> None:
        self.unload()

    def _with_given(self, names: Iterable[str]) -> Model:
        """The model with the optional inputs among ``names`` as inputs; itself if there are none."""
        given = self._optional_among(names)
        if not given:
            return self
        found = self._given.get(given)
        if found is None:
            made = Model(self._calls, self._stub, self._described_with(given), concurrency=self._concurrency)
            found = self._given.setdefault(given, made)
        return found

    def _run_given(self, inputs: Mapping[str, Value], measure_timing: bool) -> tuple[dict[str, Value], RunReport]:
        generation = self._runs.generation
        try:
            return self._with_given(inputs).run_with_report(inputs, measure_timing)
        except HalError as error:
            if not self.can_reopen or error.status != ErrorStatus.DEVICE_UNAVAILABLE:
                raise
        self._perform(Reopen(generation))
        return self._with_given(inputs).run_with_report(inputs, measure_timing)

    def _forget_given(self) -> None:
        """Close the bindings of what ``_with_given`` has made."""
        while self._given:
            _, model = self._given.popitem()
            model._runs.close()
            model._close_unwanted()

    def _perform(self, command: Command[threading.Event, Binding]) -> object:
        match command:
            case Run(binding):
                return binding.run()
            case Bind(measure_timing, dimensions):
                self._close_unwanted()
                return self._bind(BindingOptions(measure_timing, dimensions, prepares=False))
            case Wait(turn):
                return turn.wait()
            case Reopen(generation):
                with self._reopening:
                    if self._runs.generation == generation:
                        self.reopen()
        return None

    def _bind(self, options: BindingOptions) -> Binding:
        return Binding(self._calls, self._stub, self, options)

    def _close_unwanted(self) -> None:
        for binding in self._runs.unwanted():
            binding.close()
