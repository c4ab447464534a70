"""The page of all memory, and the page of one model's arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.shared_memory import shared_memories, total_bytes
from nnhal_dashboard.pages.memory.arenas import arena_owners, find_owner, plan_state
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.operating.snapshot import Detail, ObservedProcess, Snapshot

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
    return show_page(request, "memory/arena.html", values, f"The arena of {model} {owner.version}".rstrip())


def _totals(moment: Moment) -> Mapping[str, Any]:
    rows = process_memories(moment.snapshot)
    pieces = shared_memories(moment.snapshot)
    return {
        "resident": sum(row.resident for row in rows),
        "shared": sum(piece.bytes for piece in pieces),
        "pieces": len(pieces),
        "staged": sum(row.staged for row in rows),
        "buffers": sum(row.buffers for row in rows),
        "limit": sum(row.buffer_limit for row in rows),
        "arenas": arena_bytes(moment.snapshot),
    }


def _processes(moment: Moment) -> Mapping[str, Any]:
    unknown = [each for each in moment.snapshot.processes if each.kind != "dashboard"]
    return {
        "rows": process_memories(moment.snapshot),
        "unknown": [each.name for each in unknown if each.last_said is None],
        "hidden": [each.name for each in unknown if each.last_said and not each.last_said.is_whole],
    }


def _pools(moment: Moment) -> Mapping[str, Any]:
    process, session = moment.parameters.get("process", ""), moment.parameters.get("session", "")
    pieces = shared_memories(moment.snapshot, process, session)
    return {"pieces": pieces[:_SHOWN], "left_out": len(pieces) - _SHOWN, "is_chosen": bool(process or session)}


def _buffers(moment: Moment) -> Mapping[str, Any]:
    rows = [
        (each.name, buffer) for each in moment.snapshot.processes if each.last_said for buffer in each.last_said.buffers
    ]
    rows.sort(key=lambda row: -row[1].bytes)
    return {"rows": rows[:_SHOWN], "left_out": len(rows) - _SHOWN}


def _arenas(moment: Moment) -> Mapping[str, Any]:
    return {"owners": arena_owners(moment.snapshot), "host": moment.snapshot.host}


def _fences(moment: Moment) -> Mapping[str, Any]:
    rows = [
        (each.name, fence) for each in moment.snapshot.processes if each.last_said for fence in each.last_said.fences
    ]
    rows.sort(key=lambda row: row[1].since_ns)
    return {"rows": rows[:_SHOWN], "left_out": len(rows) - _SHOWN}


PAGE = Page(
    router,
    (
        Fragment("memory.totals", "memory/totals.html", _totals, Detail.SESSIONS),
        Fragment("memory.processes", "memory/processes.html", _processes, Detail.SESSIONS),
        Fragment("memory.pools", "memory/pools.html", _pools, Detail.SESSIONS),
        Fragment("memory.buffers", "memory/buffers.html", _buffers, Detail.SESSIONS),
        Fragment("memory.arenas", "memory/arenas.html", _arenas),
        Fragment("memory.fences", "memory/fences.html", _fences, Detail.SESSIONS),
    ),
)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of a process, in bytes."""

    process: ObservedProcess
    resident: int
    """Shared memory included."""
    shared: int
    """Shared memory that it holds, each piece once."""
    mapped: int
    """How much of that it has mapped."""
    staged: int
    """How much of that it copies before and after executions."""
    buffers: int
    """Buffers of memory domains."""
    buffer_limit: int
    """Room for buffers; 0 if it has none."""


def process_memories(snapshot: Snapshot) -> list[ProcessMemory]:
    """List the processes whose memory is known."""
    rows = []
    for process in snapshot.processes:
        said = process.last_said
        if said is None:
            continue
        device = process.device
        rows.append(
            ProcessMemory(
                process,
                said.usage.resident_bytes,
                total_bytes(said.pools),
                total_bytes(pool for pool in said.pools if pool.mapped),
                total_bytes(pool for pool in said.pools if pool.staged),
                device.buffer_bytes if device is not None else sum(buffer.bytes for buffer in said.buffers),
                device.buffer_limit_bytes if device is not None else 0,
            )
        )
    return rows


def arena_bytes(snapshot: Snapshot) -> int:
    """Add up the arenas of all models."""
    framework = snapshot.framework
    if framework is None:
        return 0
    served = sum(model.arena_bytes for model in framework.models)
    return served + sum(model.arena_bytes for model in framework.session_models)
