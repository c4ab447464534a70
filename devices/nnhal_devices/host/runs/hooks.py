"""The points at which a device may be made to misbehave. Parts of a device are given their hooks when they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from nnhal.fence import Signal
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import Model, OptimizationViews
from nnhal_devices.driver import Driver, PrepareOptions, RestoringDriver, Workload
from nnhal_hosting.polling import Work
from nnhal_hosting.sessions import Ownership, Sessions

if TYPE_CHECKING:
    from nnhal_devices.host.runs.execution import Execution

S = TypeVar("S")
Answer = Callable[[bytes], bytes | None]
"""Answers a message of a channel; None for a message that gets no answer."""
Exchange = Callable[[], Work | None]
"""Receives a message of a channel, and returns the work that it leaves."""


class Hooks:
    """Hooks that change nothing: those of a device that takes no faults."""

    @property
    def injected(self) -> int:
        """Return how many faults have been injected."""
        return 0

    @property
    def must_be_asked(self) -> bool:
        """Return whether support must be asked of the device, since preparing a model does not show it."""
        return False

    def around(self, service: str, servicer: S, clients: Sessions[Ownership]) -> S:
        """Return what takes the place of a servicer. ``service`` is its name in conditions of faults."""
        del service, clients
        return servicer

    def support(self, model: Model, answers: Sequence[Support]) -> Sequence[Support]:
        """Return the answers in place of a driver's."""
        del model
        return answers

    def prepare(self, driver: Driver, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Have a driver prepare a model. Raises HalError."""
        return driver.prepare(model, options)

    def restore(self, driver: RestoringDriver, model: ResolvedModel, options: PrepareOptions) -> Workload | None:
        """Have a driver restore a model from what a cache keeps; None if it cannot. Raises HalError."""
        return driver.restore(model, options)

    def optimize(self, driver: Driver, model: ResolvedModel) -> OptimizationViews:
        """Have a driver optimise a model. Raises HalError."""
        return driver.backend.optimize(model)

    def launching(self, execution: Execution) -> None:
        """Called when an execution is about to be launched. What it raises refuses the launch."""

    def signal(self, execution: Execution, signal: Signal) -> Signal:
        """Return what takes the place of the signal of a launch."""
        del execution
        return signal

    def answer(self, answer: Answer) -> Answer:
        """Return what takes the place of the answers of a channel, whose messages are answered in turn."""
        return answer

    def exchange(self, name: str, client: Ownership, exchange: Exchange) -> Exchange:
        """Return what takes the place of the exchanges of a channel, which is called ``name``."""
        del name, client
        return exchange


NO_HOOKS = Hooks()
