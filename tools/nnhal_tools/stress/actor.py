"""One thread of a session: its own objects, and what it does with them, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from nnhal.memory import create_ashmem
from nnhal.remote import CompilationCache, RemoteDevice, RemoteLauncher
from nnhal.types import BufferRole, ErrorStatus, ExecutionResult, Request
from nnhal_tools.stress.buffers import HeldBuffer, PreparedSpecimen
from nnhal_tools.stress.faults import Fault, Instant
from nnhal_tools.stress.launches import FenceGate, HeldLaunch
from nnhal_tools.stress.objects import HeldBurst, HeldExecution
from nnhal_tools.stress.outcomes import INVALID, OK, REFUSED, Answer, ask, require
from nnhal_tools.stress.plan import RequestPlan
from nnhal_tools.stress.specimens import Specimen

T = TypeVar("T")
_IN_BUFFERS = 0.4
"""Probability that an argument lies in a device buffer that has its role."""
_MISUSE = 0.03
MOST: Mapping[str, int] = {"prepared": 5, "buffers": 5, "executions": 4, "bursts": 3, "launches": 5}
"""The most objects of each kind that a thread holds."""


class Unavailable(Exception):  # noqa: N818 - an allowed outcome
    """An object that a step needs could not be created, with a status that is allowed."""

    def __init__(self, status: ErrorStatus) -> None:
        super().__init__(status.name)
        self.status = status


class NotOffered(Unavailable):
    """The device does not offer what an action is about, and need not."""

    def __init__(self) -> None:
        super().__init__(ErrorStatus.NONE)


class Actor:
    """State of a thread. Actions are functions of it; they raise Violation if the device breaks the contract."""

    def __init__(
        self,
        device: RemoteDevice,
        specimens: Sequence[Specimen],
        addition: Specimen,
        report: Callable[[str], None],
        synchronous: bool = False,
        allocates: bool = True,
    ) -> None:
        """``addition`` is one of the specimens that the device supports.

        ``synchronous`` is for a device that returns no fences: a launch must not wait for a gate. One that does not
        ``allocates`` has no device buffers.
        """
        self.device = device
        self.synchronous = synchronous
        self.allocates = allocates
        self.random = Random(0)
        """Chooses objects and arguments; each action has its own."""
        self.specimens = specimens
        self.addition = addition
        self.prepared: list[PreparedSpecimen] = []
        self.buffers: list[HeldBuffer] = []
        self.executions: list[HeldExecution] = []
        self.bursts: list[HeldBurst] = []
        self.launches: list[HeldLaunch] = []
        self.gates: list[FenceGate] = []
        self.caches: list[tuple[Specimen, CompilationCache]] = []
        """Caches to which a compilation was saved."""
        self.released: list[Callable[[], object]] = []
        """Calls on released objects: each must return INVALID_ARGUMENT."""
        self.facts: dict[str, object] = {}
        """Answers of the device that must never change."""
        self._launcher: RemoteLauncher | None = None
        self._report = report

    def note(self, text: object) -> None:
        """Report the arguments of the next call."""
        self._report(str(text))

    def forget(self) -> None:
        """Drop every object, after a violation whose consequences are unknown."""
        for held in (self.prepared, self.buffers, self.executions, self.bursts, self.launches, self.gates):
            held.clear()
        self.caches.clear()
        self.released.clear()

    def same(self, what: str, fact: T) -> T:
        """Return an answer that must never change. Raises Violation if it differs from the first one."""
        require(self.facts.setdefault(what, fact) == fact, f"{what}: {fact}, was {self.facts[what]}")
        return fact

    def perhaps(self, probability: float) -> bool:
        """True if an event of this probability happens."""
        return self.random.random() < probability

    def some(self, things: Sequence[T], make: Callable[[], T]) -> T:
        """Choose an existing object, or make a new one."""
        return self.random.choice(things) if things and self.perhaps(0.8) else make()

    def supports(self, specimen: Specimen) -> bool:
        """True if the device supports every operation of a model."""
        answers = self.get(ask(lambda: self.device.supported_operations(specimen.model)))
        return all(self.same(f"support of {specimen.name}", answers))

    def prepare(self, specimen: Specimen | None = None) -> PreparedSpecimen:
        """Prepare a model. Raises Unavailable."""
        chosen = specimen or self.random.choice(self.specimens)
        if not self.supports(chosen):
            ask(lambda: self.device.prepare_model(chosen.model), OK | REFUSED)
            chosen = self.addition
        prepared = PreparedSpecimen(chosen, self.get(ask(lambda: self.device.prepare_model(chosen.model))))
        self.keep(self.prepared, prepared, MOST["prepared"])
        return prepared

    def some_prepared(self) -> PreparedSpecimen:
        """Choose a prepared model, or prepare one. Raises Unavailable."""
        return self.some(self.prepared, self.prepare)

    def execution(self) -> HeldExecution:
        """Create a reusable execution. Raises Unavailable."""
        plan = self.plan(self.some_prepared(), stated=self.perhaps(0.8))
        self.note(plan)
        allowed = OK | (plan.expected() & INVALID)  # faults of buffers may be reported now or by the execution
        answer = ask(lambda: plan.prepared.remote.create_reusable_execution(plan.request, plan.config), allowed)
        execution = HeldExecution(plan, self.get(answer))
        self.keep(self.executions, execution, MOST["executions"])
        return execution

    def some_execution(self) -> HeldExecution:
        """Choose a reusable execution, or create one. Raises Unavailable."""
        return self.some(self.executions, self.execution)

    def burst(self) -> HeldBurst:
        """Open a burst. Raises Unavailable."""
        prepared = self.some_prepared()
        burst = HeldBurst(prepared, self.get(ask(prepared.remote.configure_execution_burst)), self.perhaps(0.6))
        self.keep(self.bursts, burst, MOST["bursts"])
        return burst

    def launcher(self) -> RemoteLauncher:
        """The thread's launch channel, opened on first use. Raises Unavailable."""
        if self._launcher is None:
            self._launcher = self.get(ask(self.device.open_launcher))
        return self._launcher

    def close_launcher(self) -> None:
        """Close the launch channel."""
        if self._launcher is not None:
            self._launcher.close()
        self._launcher = None

    def plan(self, prepared: PreparedSpecimen, tiny: bool = False, stated: bool = False) -> RequestPlan:
        """Make a request, with some arguments in device buffers that no launch uses."""
        buffers: dict[int, HeldBuffer] = {}
        for position in range(len(prepared.specimen.inputs) + 1):
            free = [b for b in self.buffers if b.has_role(prepared, position) and b not in buffers.values()]
            usable = [buffer for buffer in free if not buffer.users]
            if usable and self.perhaps(_IN_BUFFERS):
                buffers[position] = self.random.choice(usable)
        idle = [buffer for buffer in self.buffers if not buffer.users]
        if idle and self.perhaps(_MISUSE):
            buffers[self.random.randrange(len(prepared.specimen.inputs) + 1)] = self.random.choice(idle)
        return RequestPlan(prepared, self.random, buffers, tiny, stated)

    def perform(
        self,
        plan: RequestPlan,
        call: Callable[[Request], ExecutionResult],
        deadline: Instant,
        fault: Fault | None = None,
    ) -> ErrorStatus:
        """Execute a request, or its faulty form, and check status, output and untouched memory."""
        plan.look()
        expected = plan.sample.statuses
        allowed = fault.before(deadline) if fault else deadline.after(plan.expected())
        self.note(f"{plan}, {deadline}, {fault.name if fault else ''}")
        answer = ask(lambda: call(fault.request if fault else plan.request), allowed)
        if answer:
            plan.verify(answer.value)
        else:
            plan.verify_untouched()
        certain = not fault and not deadline.bounds and not deadline.invalid
        plan.conclude(answer.status, ran=certain and answer.status in expected)
        return answer.status

    def keep(self, held: list[T], thing: T, most: int) -> None:
        """Hold one more object, and release the oldest if there are more than ``most``."""
        held.append(thing)
        if len(held) > most:
            self.release(held[0])

    def release(self, thing: object) -> None:
        """Release an object on the device. From then on the device must not know it."""
        if isinstance(thing, PreparedSpecimen):
            self.prepared.remove(thing)
            thing.remote.release()
            thing.released = True
            request = RequestPlan(thing, self.random).request
            self.bury(lambda: thing.remote.execute(request))
            self.bury(thing.remote.configure_execution_burst)
            if self.allocates:
                self.bury(lambda: self.device.allocate([thing.remote], [BufferRole(0, 0)]))
        elif isinstance(thing, HeldExecution):
            if thing.launch is not None and not thing.launch.settled:
                self.settle(thing.launch)
            self.executions.remove(thing)
            thing.remote.release()
            self.bury(thing.remote.execute)
            self.bury(thing.remote.execute_fenced)
        elif isinstance(thing, HeldBurst):
            self.bursts.remove(thing)
            ask(thing.wire.release, takes=False)
            self.bury(partial(thing.wire.release_memory_resource, 1))
            thing.remote.close()
        elif isinstance(thing, HeldBuffer):
            self.buffers.remove(thing)
            thing.remote.release()
            thing.released = True
            self.bury(lambda: thing.remote.copy_to(create_ashmem(4)))
            self.bury(lambda: thing.remote.copy_from(create_ashmem(4)))
        elif isinstance(thing, HeldLaunch):
            self.settle(thing)

    def settle(self, launch: HeldLaunch) -> ErrorStatus:
        """Wait for a launch, and check how it ended."""
        self.note(f"settles {launch.plan}")
        if launch.settled:
            self.launches.remove(launch)
            return ErrorStatus.NONE
        status = launch.settle()
        self.launches[:] = [other for other in self.launches if not other.settled]
        self.gates[:] = [gate for gate in self.gates if gate.is_open]
        return status

    def bury(self, call: Callable[[], object]) -> None:
        """Remember a call on a released object."""
        self.released.append(call)
        del self.released[:-12]

    def require_buffers(self) -> None:
        """Raise NotOffered if the device has no buffers."""
        if not self.allocates:
            raise NotOffered

    def get(self, answer: Answer[T]) -> T:
        """The value of an answer. Raises Unavailable if it has none."""
        if not answer:
            raise Unavailable(answer.status)
        return answer.value
