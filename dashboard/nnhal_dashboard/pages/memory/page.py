"""The page of all memory, and the page of one model's arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from nnhal.v1 import admin_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.shared_memory import shared_memories, total_bytes
from nnhal_dashboard.pages.memory.arenas import arena_owners, find_owner, plan_state
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.operating.snapshot import Detail, Snapshot

_SHOWN = 200
"""Rows of a table at most."""
router = APIRouter()


@router.get("/memory")
def memory(request: Request, process: str = "", session: str = "") -> Response:
    """Show all memory; of shared memory that which a process, or a session of it, holds."""
    snapshot = collector_of(request).look(Detail.SESSIONS)
    chosen = {name: value for name, value in (("process", process), ("session", session)) if value}
    names = [each.name for each in snapshot.processes if each.kind != "dashboard"]
    values = {"chosen": chosen, "process": process, "session": session, "names": names}
    return show_page(request, "memory/memory.html", values, "Memory")


@router.get("/memory/arena")
def arena(request: Request, model: str, version: str = "", session: str = "") -> Response:
    """Show which value lies where in the arenas of a model, and during which steps."""
    collector = collector_of(request)
    snapshot = collector.look(Detail.SESSIONS)
    owner = find_owner(snapshot, model, version, session)
    explanation = collector.plans.unchanged(owner.subject, (owner, plan_state(snapshot))).plan.explanation
    devices = [step.device for step in explanation.steps]
    values = {
        "owner": owner,
        "host": snapshot.host.name if snapshot.host is not None else "framework",
        "devices": devices,
        "values": explanation.arena_values,
        "pictures": [Markup(chart.embedded()) for chart in arena_charts(explanation.arena_values, devices, "arena")],
        "explanation": explanation,
    }
    return show_page(request, "memory/arena.html", values, f"The arena of {model} {owner.subject.version}".rstrip())


def _totals(moment: Moment) -> Mapping[str, Any]:
    rows, pieces = process_memories(moment.snapshot), shared_memories(moment.snapshot)
    return {
        **{name: sum(row[name] for row in rows) for name in ("resident", "staged", "buffers", "buffer_limit")},
        "shared": sum(piece.bytes for piece in pieces),
        "pieces": len(pieces),
        "arenas": arena_bytes(moment.snapshot),
    }


def _processes(moment: Moment) -> Mapping[str, Any]:
    unknown = [each for each in moment.snapshot.processes if each.kind != "dashboard"]
    return {
        "rows": process_memories(moment.snapshot),
        "growth": lambda name: moment.collector.history.growth("process.memory", name),
        "unknown": [each.name for each in unknown if each.last_said is None],
        "hidden": [each.name for each in unknown if each.last_said and not each.last_said.is_whole],
    }


def _pools(moment: Moment) -> Mapping[str, Any]:
    process, session = moment.parameters.get("process", ""), moment.parameters.get("session", "")
    pieces = shared_memories(moment.snapshot, process, session)
    return {"pieces": pieces[:_SHOWN], "left_out": len(pieces) - _SHOWN, "is_chosen": bool(process or session)}


def _held(name: str, order: Callable[[Any], int]) -> Callable[[Moment], Mapping[str, Any]]:
    """The rows of what processes hold, by the field of GetProcessResponse, with the names of their processes."""

    def values(moment: Moment) -> Mapping[str, Any]:
        processes = [each for each in moment.snapshot.processes if each.last_said]
        rows = [(each.name, item) for each in processes for item in getattr(each.last_said, name)]
        rows.sort(key=lambda row: order(row[1]))
        return {"rows": rows[:_SHOWN], "left_out": len(rows) - _SHOWN}

    return values


_BUFFERS = _held("buffers", lambda buffer: -buffer.bytes)
_FENCES = _held("fences", lambda fence: fence.since_ns)
FRAGMENTS = (
    Fragment("memory.totals", "memory/totals.html", _totals, Detail.SESSIONS),
    Fragment("memory.processes", "memory/processes.html", _processes, Detail.SESSIONS),
    Fragment("memory.pools", "memory/pools.html", _pools, Detail.SESSIONS),
    Fragment("memory.buffers", "memory/buffers.html", _BUFFERS, Detail.SESSIONS),
    Fragment("memory.arenas", "memory/arenas.html", lambda moment: {"owners": arena_owners(moment.snapshot)}),
    Fragment("memory.fences", "memory/fences.html", _FENCES, Detail.SESSIONS),
)


def process_memories(snapshot: Snapshot) -> list[dict[str, Any]]:
    """List the processes whose memory is known, in bytes; of shared memory each piece once."""
    return [
        {
            "process": process,
            "resident": said.usage.resident_bytes,
            "shared": total_bytes(said.pools),
            "mapped": total_bytes(pool for pool in said.pools if pool.mapped),
            "staged": total_bytes(pool for pool in said.pools if pool.staged),
            "buffers": process.device.buffer_bytes if process.device else sum(each.bytes for each in said.buffers),
            "buffer_limit": process.device.buffer_limit_bytes if process.device else 0,
            "owner": max(said.sessions, key=_held_bytes, default=None),
        }
        for process in snapshot.processes
        if (said := process.last_said) is not None
    ]


def _held_bytes(session: admin_pb2.SessionState) -> int:
    return sum(each.bytes for each in session.objects)


def arena_bytes(snapshot: Snapshot) -> int:
    """Add up the arenas of all models."""
    framework = snapshot.framework
    if framework is None:
        return 0
    served = sum(model.arena_bytes for model in framework.models)
    return served + sum(model.arena_bytes for model in framework.session_models)
