"""Faults of calls, with the statuses that they must or may lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from nnhal.clock import now_ns
from nnhal.memory import BufferDescription, create_hardware_buffer
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import (
    NO_DEADLINE,
    Ashmem,
    ExecutionConfig,
    MappableFile,
    Request,
    RequestArgument,
    RequestMemoryPool,
    TokenValuePair,
)
from nnhal_tools.stress.memory import new_file
from nnhal_tools.stress.outcomes import INVALID, MISSED, REFUSED, Statuses
from nnhal_tools.stress.plan import RequestPlan, open_files

_UNKNOWN_TOKEN = 1 << 40
_FAR_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Instant:
    """A deadline or a duration, and the statuses that it adds. An invalid one must be refused."""

    ns: int = NO_DEADLINE
    allowed: Statuses = frozenset()
    invalid: bool = False

    @property
    def bounds(self) -> bool:
        """True if it may end an execution."""
        return bool(self.allowed)

    def __str__(self) -> str:
        return f"{self.ns} ns{' (may pass)' if self.allowed else ''}"

    def after(self, allowed: Statuses) -> Statuses:
        """Return how a call with it may end, given how a call without it may end."""
        return INVALID if self.invalid else allowed | self.allowed


NO_INSTANT = Instant()


def draw_deadline(random: Random) -> Instant:
    """Draw a deadline: mostly none, sometimes distant, near, past or invalid."""
    choice = random.random()
    if choice < 0.75:
        return NO_INSTANT
    if choice < 0.83:
        return Instant(now_ns() + _FAR_NS)
    if choice < 0.92:
        return Instant(now_ns() + random.randrange(100_000, 20_000_000), MISSED)
    if choice < 0.97:
        return Instant(random.choice((0, 1, now_ns())), MISSED)
    return Instant(random.choice((-2, -(1 << 62))), invalid=True)


def draw_duration(random: Random) -> Instant:
    """Draw a duration: how long an execution may take after its fences have signalled."""
    choice = random.random()
    if choice < 0.85:
        return NO_INSTANT
    if choice < 0.9:
        return Instant(_FAR_NS)
    if choice < 0.97:
        return Instant(random.choice((0, 1000, 5_000_000)), MISSED)
    return Instant(-2, invalid=True)


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty request: its fault, the request, and how a call must end."""

    name: str
    request: Request
    allowed: Statuses

    def before(self, deadline: Instant) -> Statuses:
        """Return how the call may end with a deadline. Invalid arguments are refused before anything else."""
        return self.allowed if self.allowed == INVALID else self.allowed | deadline.allowed


def spoil_request(plan: RequestPlan, random: Random) -> Fault:
    name = random.choice(list(_FAULTS))
    return _FAULTS[name](plan, random) or Fault("an input is missing", _without_input(plan.request), INVALID)


def spoil_config(config: ExecutionConfig, random: Random) -> ExecutionConfig:
    """An invalid ExecutionConfig."""
    hint = TokenValuePair(7 << 16 | 1, b"?")
    return random.choice((replace(config, loop_timeout_duration_ns=-2), replace(config, execution_hints=(hint,))))


_Spoil = Callable[[RequestPlan, Random], Fault | None]


def _on_request(name: str, change: Callable[[Request], Request]) -> tuple[str, _Spoil]:
    return name, lambda plan, _: Fault(name, change(plan.request), INVALID)


def _on_argument(name: str, change: Callable[[RequestArgument], RequestArgument]) -> tuple[str, _Spoil]:
    """A request with one argument changed; None if no argument lies in a pool."""

    def spoil(plan: RequestPlan, random: Random) -> Fault | None:
        if not plan.slots:
            return None
        position = random.choice(list(plan.slots))
        arguments = [*plan.request.inputs, *plan.request.outputs]
        arguments[position] = change(arguments[position])
        count = len(plan.request.inputs)
        request = replace(plan.request, inputs=tuple(arguments[:count]), outputs=tuple(arguments[count:]))
        return Fault(name, request, INVALID)

    return name, spoil


def _without_input(request: Request) -> Request:
    return replace(request, inputs=request.inputs[:-1])


def _at(argument: RequestArgument, **changes: int) -> RequestArgument:
    return replace(argument, location=replace(argument.location, **changes))


def _shorter(plan: RequestPlan, random: Random) -> Fault | None:
    """A wrong length for an argument. An output of unknown size may have any length, so it is not chosen."""
    inputs = [position for position in plan.slots if position < len(plan.request.inputs)]
    if not inputs:
        return None
    arguments = list(plan.request.inputs)
    at = random.choice(inputs)
    arguments[at] = _at(arguments[at], length=arguments[at].location.length - 1, padding=0)
    return Fault("an input is too short", replace(plan.request, inputs=tuple(arguments)), INVALID)


def _with_pool(name: str, plan: RequestPlan, index: int, pool: RequestMemoryPool, allowed: Statuses) -> Fault:
    pools = list(plan.request.pools)
    pools[index] = pool
    return Fault(name, replace(plan.request, pools=tuple(pools)), allowed)


def _unsealed_ashmem(plan: RequestPlan, random: Random) -> Fault | None:
    if not plan.blocks:
        return None
    index = random.randrange(len(plan.blocks))
    memory = Ashmem(new_file(bytes(plan.blocks[index].size)), plan.blocks[index].size)
    return _with_pool("ashmem that may shrink", plan, index, memory, INVALID)


def _beyond_file(plan: RequestPlan, random: Random) -> Fault | None:
    files = open_files(plan)
    if not files:
        return None
    block = random.choice(files)
    assert isinstance(block.memory, MappableFile)
    memory = replace(block.memory, length=1 << 30)
    return _with_pool("a file that is shorter than said", plan, plan.blocks.index(block), memory, INVALID)


def _read_only_output(plan: RequestPlan, _: Random) -> Fault | None:
    slot = plan.slots.get(len(plan.specimen.inputs))
    if slot is None or plan.blocks[slot.block] not in open_files(plan):
        return None
    memory = plan.blocks[slot.block].read_only()
    return _with_pool("an output in a file that is read-only", plan, slot.block, memory, REFUSED)


def _image(plan: RequestPlan, random: Random) -> Fault | None:
    if not plan.slots:
        return None
    image = create_hardware_buffer(BufferDescription(16, 16, 1, Format.R8G8B8A8_UNORM, Usage.CPU_READ_OFTEN, 16))
    return _with_pool("a range of an image", plan, random.choice(list(plan.slots.values())).block, image, REFUSED)


def _omitted(plan: RequestPlan, random: Random) -> Fault:
    arguments = list(plan.request.inputs)
    arguments[random.randrange(len(arguments))] = RequestArgument(has_no_value=True)
    return Fault("an input is omitted", replace(plan.request, inputs=tuple(arguments)), REFUSED)


def _unknown_token(plan: RequestPlan, random: Random) -> Fault:
    token = random.choice((0, -1, _UNKNOWN_TOKEN))
    inputs = (RequestArgument(replace(plan.request.inputs[0].location, pool_index=0)), *plan.request.inputs[1:])
    whole = tuple(_at(argument, pool_index=0, offset=0, length=0, padding=0) for argument in inputs)
    return Fault(f"token {token}", replace(plan.request, inputs=whole, pools=(token, *plan.request.pools)), INVALID)


_FAULTS: dict[str, _Spoil] = dict(
    [
        _on_request("no inputs", lambda request: replace(request, inputs=())),
        _on_request("no outputs", lambda request: replace(request, outputs=())),
        _on_request("an input too many", lambda request: replace(request, inputs=request.inputs + request.inputs[:1])),
        _on_request("an output too many", lambda request: replace(request, outputs=request.outputs * 2)),
        _on_request("no pools", lambda request: replace(request, pools=())),
        _on_argument("no such pool", lambda argument: _at(argument, pool_index=9)),
        _on_argument("a negative pool", lambda argument: _at(argument, pool_index=-1)),
        _on_argument("a negative offset", lambda argument: _at(argument, offset=-4)),
        _on_argument("a negative padding", lambda argument: _at(argument, padding=-64)),
        _on_argument("beyond the pool", lambda argument: _at(argument, offset=1 << 20)),
        _on_argument("an offset that overflows", lambda argument: _at(argument, offset=(1 << 63) - 8)),
        _on_argument("no length", lambda argument: _at(argument, length=0)),
        _on_argument("another rank", lambda argument: replace(argument, dimensions=(2, 2, 2, 2, 2))),
        _on_argument("a negative axis", lambda argument: replace(argument, dimensions=(-1, 8))),
        _on_argument("no value, and yet a place", lambda argument: replace(argument, has_no_value=True)),
        ("too short", _shorter),
        ("unsealed ashmem", _unsealed_ashmem),
        ("beyond a file", _beyond_file),
        ("read-only output", _read_only_output),
        ("image", _image),
        ("omitted", _omitted),
        ("token", _unknown_token),
    ]
)
