"""What processes hold, as rows of tables: sessions, pools, buffers, executions, fences, models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import framework_admin_pb2, types_pb2
from nnhal_tools.operate.text import in_bytes, lasting, request_time, since


@dataclass(frozen=True, slots=True)
class Holding:
    """A kind of things that processes hold."""

    name: str
    """Plural; the field of GetProcessResponse."""
    columns: tuple[str, ...]
    row: Callable[[str, wire.GetProcessResponse, object], tuple[str, ...]]
    """The cells of one of them, in a process of a name."""


def _session(process: str, _: wire.GetProcessResponse, item: object) -> tuple[str, ...]:
    assert isinstance(item, wire.SessionState)
    objects = ", ".join(f"{count.count} {count.kind}{'' if count.count == 1 else 's'}" for count in item.objects)
    return (
        f"{process}/{item.id}",
        item.client_name,
        f"{item.owner}, {item.user or f'user {item.uid}'}",
        item.command,
        since(item.opened_ns),
        objects or "nothing",
    )


def _pool(process: str, _: wire.GetProcessResponse, item: object) -> tuple[str, ...]:
    assert isinstance(item, wire.PoolState)
    way = "staged" if item.staged else "mapped" if item.mapped else "not used"
    where = f"{process}/{item.session}" if item.session else process
    return (where, item.kind, in_bytes(item.bytes), way, ", ".join(item.seals), item.memory, item.purpose)


def _buffer(process: str, _: wire.GetProcessResponse, item: object) -> tuple[str, ...]:
    assert isinstance(item, wire.BufferState)
    dimensions = ", ".join(str(extent) for extent in item.dimensions)
    return (
        f"{process}/{item.session}",
        str(item.token),
        in_bytes(item.bytes),
        f"{item.type} [{dimensions}]",
        ", ".join(item.roles),
        "values" if item.initialized else "none",
    )


def _execution(process: str, response: wire.GetProcessResponse, item: object) -> tuple[str, ...]:
    assert isinstance(item, wire.ExecutionState)
    phase = wire.ExecutionState.Phase.Name(item.phase).removeprefix("PHASE_").lower()
    left = item.deadline_ns - response.at_ns
    deadline = "" if item.deadline_ns < 0 else f"in {lasting(left)}" if left >= 0 else f"{lasting(-left)} ago"
    return (
        f"{process}/{item.id}",
        item.what,
        phase,
        lasting(response.at_ns - item.since_ns),
        deadline,
        types_pb2.Priority.Name(item.priority).removeprefix("PRIORITY_").lower(),
        item.client or item.session,
        item.request_id,
    )


def _fence(process: str, response: wire.GetProcessResponse, item: object) -> tuple[str, ...]:
    assert isinstance(item, wire.FenceState)
    owed = "owes" if item.is_owed else "waits"
    age = lasting(response.at_ns - item.since_ns)
    return (f"{process}/{item.session}", owed, item.owed_by, item.awaited_by, age)


HOLDINGS = (
    Holding("sessions", ("id", "client", "owner", "command", "age", "owns"), _session),
    Holding("pools", ("session", "kind", "size", "use", "seals", "memory", "purpose"), _pool),
    Holding("buffers", ("session", "token", "size", "type", "roles", "holds"), _buffer),
    Holding("executions", ("id", "what", "phase", "for", "deadline", "priority", "client", "request"), _execution),
    Holding("fences", ("session", "process", "owed by", "awaited by", "age"), _fence),
)
"""By the names of the options of 'nnhal ps'."""
MODEL_COLUMNS = ("model", "version", "state", "devices", "requests", "failures", "mean", "queued", "oldest", "arena")


def model_rows(framework: framework_admin_pb2.GetFrameworkResponse) -> list[tuple[str, ...]]:
    """A row for each version of a model of the repository, and for each model that a session has loaded."""
    rows: list[tuple[str, ...]] = [
        (
            model.name,
            model.version,
            " ".join([model.state, *([f"({model.reason})"] if model.reason else [])]),
            _devices(model.devices, model.missing),
            str(model.counts.requests),
            str(model.counts.failures),
            request_time(model.counts.duration_ns / model.counts.requests if model.counts.requests else None),
            str(model.queued),
            _oldest(model.oldest_request_ns),
            in_bytes(model.arena_bytes),
        )
        for model in framework.models
    ]
    rows += [
        (
            model.name,
            "",
            f"of session framework/{model.session}, {model.bindings} bound",
            _devices(model.devices, ()),
            *("", "", "", ""),
            _oldest(model.oldest_run_ns),
            in_bytes(model.arena_bytes),
        )
        for model in framework.session_models
    ]
    return rows


def _oldest(nanoseconds: int) -> str:
    return lasting(nanoseconds) if nanoseconds else "-"


def _devices(devices: Sequence[str], missing: Sequence[str]) -> str:
    without = f" (without {', '.join(missing)})" if missing else ""
    return ", ".join(devices) + without
