"""Wired chains: stages on this device that run one another."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.types import ErrorStatus
from nnhal.v1 import burst_pb2, chain_pb2
from nnhal_conformance.channels import BROKEN, BurstChannel, require_numbered
from nnhal_conformance.device import Bound, Prepared, Subject
from nnhal_conformance.rule import (
    INVALID,
    BrokenRuleError,
    NotOfferedError,
    UnservedMethodError,
    refused,
    require,
    rule,
)
from nnhal_conformance.session import Datagrams, DeviceSession
from nnhal_conformance.small_models import SmallRequest

GROUP = "chains"
_PAGE = "reference/protocol.md#wired-chains"
_FOLLOWS = "plans with this device are chained by fences, or their steps run in turn"


def _pair() -> tuple[Descriptor, Descriptor]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Descriptor(ours.detach()), Descriptor(theirs.detach())


def _end(descriptor: Descriptor, device: Subject, what: str) -> Datagrams:
    """Take over an end of a pair."""
    return Datagrams(socket.socket(fileno=descriptor.detach()), device.seconds, what)


def _require_wirable(device: Subject) -> None:
    described = device.description
    if described is None or not described.can_be_wired:
        raise NotOfferedError(f"Describe does not say can_be_wired: {_FOLLOWS}")


def _wire(session: DeviceSession, execution: int, step: int, **descriptors: Any) -> int:
    """Make an execution a stage; descriptors, alone or in lists, by the names of their fields without the ending."""
    fields: dict[str, Any] = {"execution": execution, "step": step, "name": f"step {step}"}
    for name, given in descriptors.items():
        if isinstance(given, list):
            fields[f"{name}_descriptor_ids"] = session.link.put(*(each.fileno() for each in given))
        else:
            (fields[f"{name}_descriptor_id"],) = session.link.put(given.fileno())
    answer = session.call(session.backend.WireStep, chain_pb2.WireStepRequest(**fields))
    require(answer.stage > 0, f"stage {answer.stage}", "a handle above 0")
    return answer.stage


class _Chain:
    """Two stages in sessions of their own, and the caller's end. Both have inputs of their own."""

    def __init__(self, device: Subject, **fields: Any) -> None:
        _require_wirable(device)
        self.held: list[Prepared] = [device.prepare(), device.prepare()]
        self.works: list[SmallRequest] = [each.work() for each in self.held]
        self.bound: list[Bound] = [
            each.bind(work.request, **fields) for each, work in zip(self.held, self.works, strict=True)
        ]
        ours, calls = _pair()
        rings, hears = _pair()
        self._cancelled = create_ashmem(8)
        page = self._cancelled.descriptor
        first, second = (each.session for each in self.held)
        try:
            self.stages = [
                _wire(first, self.bound[0].handle, 0, calls=calls, out_bell=[rings], cancelled=page),
                _wire(second, self.bound[1].handle, 1, answers=calls, in_bell=[hears], cancelled=page),
            ]
        except UnservedMethodError as error:
            raise BrokenRuleError(f"{error}: Describe says can_be_wired") from error
        self.caller = BurstChannel(first, _end(ours, device, "the chain's socket"))

    def run(self, **fields: Any) -> Any:
        """Run the chain."""
        return self.caller.exchange(self.caller.call_of(self.bound[0].handle, **fields))

    def rule(self, seed: int) -> None:
        """Run it with new inputs, and check what both stages have written."""
        for number, work in enumerate(self.works):
            work.fill(seed + number)
        answer = self.run()
        require(answer.HasField("result"), "status NONE without a result", "a result")
        require(answer.result.output_sufficient_size, "output_sufficient_size false", "true: sizes are known")
        for work in self.works:
            work.require_output()

    def cancel(self, run: int) -> None:
        """Say which run was cancelled last."""
        os.pwrite(self._cancelled.descriptor.fileno(), run.to_bytes(8, "little"), 0)

    def unwire(self, number: int) -> bool:
        """Unwire a stage, and return whether it still runs."""
        session = self.held[number].session
        message = chain_pb2.UnwireStepRequest(stage=self.stages[number])
        return session.call(session.backend.UnwireStep, message).runs


@rule(GROUP, _PAGE)
def run(device: Subject) -> None:
    """A call at the entry runs the stages in their order; the exit answers once, after all outputs are written."""
    chain = _Chain(device)
    for seed in range(4):
        chain.rule(seed)
        chain.caller.channel.require_quiet()


@rule(GROUP, _PAGE)
def failing_step(device: Subject) -> None:
    """If a step fails, those behind it do not run, and the answer names it; the next run works."""
    chain = _Chain(device)
    for work in chain.works:
        work.fill()
    message = chain.caller.call_of(chain.bound[0].handle, deadline_ns=1).SerializeToString()
    answer = burst_pb2.BurstAnswer.FromString(chain.caller.channel.answer(message).message)
    if answer.status:
        status = ErrorStatus(answer.status)
        require(status.name.startswith("MISSED_DEADLINE"), status.name, "MISSED_DEADLINE, or NONE")
        require(bool(answer.steps) and bool(answer.message), f"{answer}", "the step that failed, and why")
        require(answer.steps[0].step == 0, f"step {answer.steps[0].step}", "step 0, which is the first to fail")
        require(chain.works[1].is_untouched, "an output of the step behind", "nothing written")
    chain.rule(2)


@rule(GROUP, _PAGE)
def cancelled(device: Subject) -> None:
    """A stage does not begin a run that the caller has cancelled."""
    chain = _Chain(device)
    chain.rule(1)
    chain.cancel(2)
    try:
        chain.run()
    except HalError as error:
        require(error.status == ErrorStatus.GENERAL_FAILURE, str(error), "GENERAL_FAILURE")
    else:
        raise BrokenRuleError("a cancelled run succeeded, expected GENERAL_FAILURE")
    chain.rule(2)


@rule(GROUP, _PAGE)
def refusals(device: Subject) -> None:
    """Calls for something else are INVALID_ARGUMENT, and the chain goes on."""
    chain = _Chain(device)
    refused(lambda: chain.caller.exchange(chain.caller.call_of(2**62)), INVALID, what="another execution")
    refused(lambda: chain.caller.forget(1), INVALID, what="a release of memory")
    refused(lambda: chain.run(deadline_ns=-2), INVALID, what="deadline -2")
    chain.rule(1)


@rule(GROUP, "reference/protocol.md#channels")
def malformed(device: Subject) -> None:
    """A datagram that is no call is answered with INVALID_ARGUMENT, and ends the chain."""
    for message in BROKEN.values():
        _Chain(device).caller.require_refusal_and_end(message)


@rule(GROUP, _PAGE)
def garbage_on_a_bell(device: Subject) -> None:
    """A datagram on a bell that is no Ring ends the stage: all its sockets close."""
    bells, stage = _stage(device)
    bells[0].send(b"\xff" * 30)
    for bell in bells:
        bell.require_end()
    assert stage


def _stage(device: Subject) -> tuple[list[Datagrams], int]:
    """Wire one stage in the middle of a chain: the other ends of its bells, and its handle."""
    _require_wirable(device)
    held = device.prepare()
    work = held.work()
    work.fill()
    before, in_bell = _pair()
    after, out_bell = _pair()
    stage = _wire(held.session, held.bind(work.request).handle, 3, in_bell=[in_bell], out_bell=[out_bell])
    return [_end(end, device, "a bell") for end in (before, after)], stage


@rule(GROUP, _PAGE)
def rings(device: Subject) -> None:
    """A stage rings once for each ring that it hears, with the number of the run, its begin and its deadline."""
    (before, after), _ = _stage(device)
    for run in (1, 2):
        ring = chain_pb2.Ring(run=run, started_ns=5, deadline_ns=-1)
        heard = chain_pb2.Ring.FromString(after_ring(before, after, ring))
        require(heard == ring, " ".join(str(heard).split()), f"{' '.join(str(ring).split())}, as it came")
        after.require_quiet()
    step = chain_pb2.Ring(run=3, started_ns=5, deadline_ns=-1)
    step.steps.add(step=1).answer.status = 2  # type: ignore[assignment]
    heard = chain_pb2.Ring.FromString(after_ring(before, after, step))
    require([each.step for each in heard.steps] == [1], f"{heard}", "the step that failed before, passed on")


def after_ring(before: Datagrams, after: Datagrams, ring: chain_pb2.Ring) -> bytes:
    """Ring at one end, and return what is heard at the other."""
    before.send(ring.SerializeToString())
    heard = after.receive()
    if heard is None:
        raise BrokenRuleError("the bell was closed, expected a Ring")
    return heard.message


def _joining(device: Subject) -> tuple[list[Datagrams], Datagrams]:
    """Wire a stage that waits for two bells: their other ends, and that of its own bell."""
    held = device.prepare()
    work = held.work()
    work.fill()
    pairs = [_pair() for _ in range(3)]
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    _wire(held.session, held.bind(work.request).handle, 0, in_bell=theirs[:2], out_bell=theirs[2:])
    ends = [_end(end, device, "a bell") for end in ours]
    return ends[:2], ends[2]


@rule(GROUP, _PAGE)
def joins(device: Subject) -> None:
    """A stage that waits for several bells rings when all have rung, with the failed steps that they name."""
    _require_wirable(device)
    befores, after = _joining(device)
    for run, (first, second, expected) in enumerate((((), (), ()), ((2, 5), (2, 3), (2, 3, 5))), 1):
        for before, steps in zip(befores, (first, second), strict=True):
            ring = chain_pb2.Ring(run=run, started_ns=5, deadline_ns=-1)
            for step in steps:
                ring.steps.add(step=step).answer.status = 2  # type: ignore[assignment]
            before.send(ring.SerializeToString())
        heard = after.receive()
        require(heard is not None, "the end of the bell", "a ring")
        assert heard is not None
        told = tuple(each.step for each in chain_pb2.Ring.FromString(heard.message).steps)
        require(told == expected, f"steps {told}", f"{expected}")


@rule(GROUP, _PAGE)
def rings_twice(device: Subject) -> None:
    """A bell that rings twice in one run ends the stage."""
    _require_wirable(device)
    (before, _), after = _joining(device)
    for run in (1, 2):
        before.send(chain_pb2.Ring(run=run, started_ns=5, deadline_ns=-1).SerializeToString())
    after.require_end()


@rule(GROUP, _PAGE)
def no_stage(device: Subject) -> None:
    """An execution that is unknown or has an output of open dimensions is no stage, nor has one a step below 0."""
    _require_wirable(device)
    small = device.small
    held = device.prepare()
    handle = held.bind(held.work().request).handle

    def wire(execution: int, step: int = 0) -> object:
        return _wire(held.session, execution, step, in_bell=[_pair()[1]], out_bell=[_pair()[1]])

    refused(lambda: wire(2**62), INVALID, what="an unknown execution")
    refused(lambda: wire(handle, -1), INVALID, what="step -1")
    other = device.prepare_if_supported(small.of_open_output(), f"{small.name} with an output of open dimensions")
    bound = other.bind(other.work().request)
    ask = partial(_wire, other.session, bound.handle, 0, in_bell=[_pair()[1]], out_bell=[_pair()[1]])
    refused(ask, INVALID, what="an output of open dimensions")


@rule(GROUP, _PAGE)
def end_of_a_socket(device: Subject) -> None:
    """The end of any socket ends the chain as a whole: by the caller, a released execution, a session, UnwireStep."""
    chain = _Chain(device)
    chain.rule(1)
    chain.bound[1].release()
    chain.caller.channel.require_end()
    chain = _Chain(device)
    chain.held[1].session.link.close()
    chain.caller.channel.require_end()
    chain = _Chain(device)
    chain.rule(1)
    device.until(lambda: not chain.unwire(1), lambda: "the stage runs though nobody has called, expected that it rests")
    chain.caller.channel.require_end()
    (before, after), _ = _stage(device)
    after.close()
    before.require_end()


@rule(GROUP, _PAGE)
def descriptors(device: Subject) -> None:
    """Descriptors that make no stage are INVALID_ARGUMENT, and are closed."""
    _require_wirable(device)
    held = device.prepare()
    handle, session = held.bind(held.work().request).handle, held.session
    memory = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))
    ours, theirs = socket.socketpair()
    ours.close()
    stream = Descriptor(theirs.detach())

    def bell() -> Descriptor:
        return _pair()[1]

    def bells(count: int) -> Sequence[Descriptor]:
        return [bell() for _ in range(count)]

    cases: dict[str, dict[str, Any]] = {
        "neither calls nor in-bells": {"answers": bell()},
        "calls and in-bells": {"calls": bell(), "in_bell": bells(1), "answers": bell()},
        "neither answers nor out-bells": {"calls": bell()},
        "memory as a bell": {"in_bell": [memory], "answers": bell()},
        "a bell of type SOCK_STREAM": {"in_bell": [stream], "answers": bell()},
        "17 bells": {"in_bell": bells(17), "answers": bell()},
    }
    for what, given in cases.items():
        refused(partial(_wire, session, handle, 0, **given), INVALID, what=what)
    unknown = chain_pb2.WireStepRequest(execution=handle, calls_descriptor_id=10**9, answers_descriptor_id=10**9 + 1)
    refused(lambda: session.call(session.backend.WireStep, unknown), INVALID, what="unknown ids")


@rule(GROUP, _PAGE)
def usage(device: Subject) -> None:
    """The exit counts the runs that it has answered, those that succeeded and those that failed."""
    chain = _Chain(device)
    for seed in range(3):
        chain.rule(seed)
    session = chain.held[1].session
    answer = session.call(session.backend.GetStageUsage, chain_pb2.GetStageUsageRequest(stage=chain.stages[1]))
    require((answer.runs, answer.failed_runs) == (3, 0), f"{answer.runs}, {answer.failed_runs} failed", "3, 0 failed")


@rule(GROUP, _PAGE)
def leaks(device: Subject) -> None:
    """Chains that have ended leave no descriptor in the device's process."""
    _require_wirable(device)

    def round_() -> None:
        chain = _Chain(device)
        chain.rule(1)
        chain.unwire(0)
        chain.caller.channel.require_end()
        for held in chain.held:
            held.session.close()

    device.require_no_growth(6, round_, 3)


@rule(GROUP, _PAGE)
def numbers(device: Subject) -> None:
    """If the session has agreed on it, the answer has the number of its call, also if the call is refused."""
    chain = _Chain(device)
    calls = [chain.caller.call_of(handle).SerializeToString() for handle in (chain.bound[0].handle, 2**62)]
    require_numbered(chain.held[1].session, chain.caller.channel, *calls)
