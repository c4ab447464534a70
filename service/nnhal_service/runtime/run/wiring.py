"""Wiring the steps of a plan: each becomes a stage on its device, and the stages run one another (see chain.proto)."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from nnhal.descriptor import Descriptor
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.exhaustion import host_failure
from nnhal.remote import RemoteExecution
from nnhal.remote.stage import RemoteStage, StageDescriptors
from nnhal.types import ErrorStatus, RunUsage
from nnhal_hosting.logs import get_logger

_MOST_BELLS_OF_A_KIND = 16
"""The most bells of a kind of one stage."""
_MOST_BELLS = 128
"""In one chain: while it is wired, each is two descriptors of this process."""
_log = get_logger(__name__)


class BellKind(Enum):
    """Meaning of a bell to the stage that hears it."""

    START = "start"
    """The run has begun: the entry rings it before it runs its own step."""
    STEP = "step"
    """A step has ended for which this one waits."""
    END = "end"
    """A step has ended, for which the exit's answer waits."""


class Bell(NamedTuple):
    """A bell between two stages, by the numbers of their steps."""

    kind: BellKind
    rings: int
    hears: int


class Bells:
    """The bells of a chain. Its first step is the entry, its last one the exit."""

    def __init__(self, needs: Sequence[tuple[int, ...]]) -> None:
        """``needs`` are the dependencies of each step."""
        self._last = last = len(needs) - 1
        used = {need for each in needs for need in each}
        self._all = (
            *(Bell(BellKind.START, 0, step) for step, each in enumerate(needs) if step and not each),
            *(Bell(BellKind.STEP, need, step) for step, each in enumerate(needs) for need in each),
            *(Bell(BellKind.END, step, last) for step in range(last) if step not in used),
        )

    @property
    def are_allowed(self) -> bool:
        """Return whether a chain may have so many."""
        most = max(len(bells) for step in range(self._last + 1) for bells in self.of_stage(step))
        return len(self._all) <= _MOST_BELLS and most <= _MOST_BELLS_OF_A_KIND

    def of_stage(self, step: int) -> tuple[Sequence[Bell], ...]:
        """Return a stage's in-bells, out-bells, start bells and end bells."""
        rung = [bell for bell in self._all if bell.rings == step]
        heard = [bell for bell in self._all if bell.hears == step]
        return (
            [bell for bell in heard if bell.kind is not BellKind.END],
            [bell for bell in rung if bell.kind is not BellKind.START],
            [bell for bell in rung if bell.kind is BellKind.START],
            [bell for bell in heard if bell.kind is BellKind.END],
        )

    def behind(self, steps: Collection[int]) -> set[int]:
        """Return the steps that wait for one of these, directly or not."""
        found: set[int] = set()
        for bell in self._all:  # in the order of those that hear: a step waits for earlier ones only
            if bell.kind is BellKind.STEP and (bell.rings in steps or bell.rings in found):
                found.add(bell.hears)
        return found


class Stragglers:
    """Devices that may still be at work on a lost run, since they do not answer."""

    def __init__(self) -> None:
        self.there_are = False


class Wiring:
    """The stages of a plan's steps. The process with the caller's end runs them, by calls that name ``execution``."""

    def __init__(
        self,
        executions: Sequence[tuple[str, RemoteExecution]],
        bells: Bells,
        stragglers: Stragglers,
        cancelled: Descriptor | None = None,
    ) -> None:
        """``executions`` are those of the steps, each after the name of its device.

        ``cancelled`` is shared memory that begins with the number of the last cancelled run.

        Raises HalError if a device refuses, TransportError if one is gone.
        """
        self.execution = executions[0][1].handle
        self._stragglers = stragglers
        self._stages: list[RemoteStage] = []
        try:
            self._caller_end, others = _pair()
            sockets = _Sockets(bells)
            for number, (device, execution) in enumerate(executions):
                descriptors = sockets.of_stage(number)
                descriptors.calls = others if number == 0 else None
                descriptors.answers = others if number == len(executions) - 1 else None
                descriptors.cancelled = cancelled
                self._stages.append(execution.wire(number, f"the step on {device}", descriptors))
        except OSError as error:
            self.unwire()
            raise host_failure("no sockets for a chain", error) from error
        except BaseException:
            self.unwire()
            raise

    def take_caller_end(self) -> Descriptor:
        """Return the caller's end of the socket. None stays here, so that the chain ends with its caller."""
        return Descriptor(self._caller_end.detach())

    def usage(self, seconds: float | None = None) -> RunUsage:
        """Return the counts of its runs. Raises HalError, or TransportError if that takes more than ``seconds``."""
        if not self._stages:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the chain has ended")
        return self._stages[-1].usage(seconds)

    def unwire(self) -> None:
        """End the chain, and wait until no stage runs; harmless when repeated.

        If a device does not answer, its stage may still run: there are stragglers.
        """
        stages, self._stages = self._stages, []
        for stage in stages:
            try:
                while not stage.unwire():
                    _log.info("a step of a chain that has ended still runs; its memory is in use until it ends")
            except (HalError, DeadObjectError):
                continue  # the stage, or its device, is gone
            except TransportError:
                self._stragglers.there_are = True


class _Sockets:
    """The bells of a chain while it is wired: the first stage that has one makes it, the second takes the other end."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._other_ends: dict[Bell, Descriptor] = {}

    def of_stage(self, step: int) -> StageDescriptors:
        """Return a stage's ends of its bells. Raises OSError."""
        in_bells, out_bells, start_bells, end_bells = (
            [self._take(bell) for bell in bells] for bells in self._bells.of_stage(step)
        )
        return StageDescriptors(in_bells, out_bells, start_bells, end_bells)

    def _take(self, bell: Bell) -> Descriptor:
        end = self._other_ends.pop(bell, None)
        if end is None:
            end, self._other_ends[bell] = _pair()
        return end


def _pair() -> tuple[Descriptor, Descriptor]:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Descriptor(first.detach()), Descriptor(second.detach())
