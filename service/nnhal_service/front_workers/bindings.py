"""The framework's side of what a front worker has bound."""

from __future__ import annotations

from nnhal.errors import NnhalError
from nnhal_service.front_workers.interfaces import BoundRunChannel
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving import ServedModel
from nnhal_service.serving.instances.bindable_model import BoundLoadedModel


class HeldBinding:
    """A model that is bound to a front worker's memory, with the runs that are not direct."""

    def __init__(self, model: ServedModel, bound: BoundLoadedModel) -> None:
        self._model = model
        self.bound = bound
        self._running: Cancellation | None = None
        self._asked: PreparedPlan | None = None

    def run(self, deadline_ns: int) -> RunReport:
        """Run it once. Raises as ExecutionContext, and StillRunningError if the run outlasts its deadline."""
        cancellation = self._running = Cancellation()
        try:
            return run_by_deadline(lambda deadline_ns: self.bound.run(deadline_ns, cancellation), deadline_ns)
        finally:
            self._running = None

    def cancel(self) -> None:
        """Cancel the run in flight; harmless if there is none."""
        running = self._running
        if running is not None:
            running.cancel()

    @property
    def may_be_direct(self) -> bool:
        """Whether no run channel is open, and none has been asked for since the plan is another one."""
        context = self.bound.context
        return context.prepared is not self._asked and not context.has_run_channel

    def open_run_channel(self) -> BoundRunChannel | None:
        """A new run channel; None if runs are more than one step, or the device has none or is gone."""
        context = self.bound.context
        self._asked = context.prepared
        try:
            end = context.open_run_channel()
        except NnhalError:  # runs through the framework will tell why
            context.close_run_channel()
            return None
        if end is None:
            return None
        may_fall_back = self._model.loaded.prepared.parts.may_fall_back
        return BoundRunChannel(end.channel, end.execution, may_fall_back, tuple(end.outputs), tuple(context.settled))
