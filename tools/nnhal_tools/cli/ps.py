"""``nnhal ps``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nnhal.errors import MissingMethodError, NnhalError
from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, print_json, print_rows
from nnhal_tools.operate.holdings import HOLDINGS, MODEL_COLUMNS, Holding, model_rows
from nnhal_tools.operate.operator_session import OperatorSession, Reachable, foreign_supervisor
from nnhal_tools.operate.plain import plain
from nnhal_tools.operate.text import in_bytes, since, state_name

_AT_A_TIME = 8
_COLUMNS = ("process", "kind", "state", "pid", "age", "restarts", "memory", "threads", "sessions", "work", "remarks")
_NO_KEY = "only this command's own session is shown: the process has no supervisor of nnhal; --admin-key FILE shows all"


def ps(
    sessions: Annotated[bool, typer.Option("--sessions", help="Sessions, their owners and what they own.")] = False,
    pools: Annotated[bool, typer.Option("--pools", help="Shared memory of sessions, and arenas.")] = False,
    buffers: Annotated[bool, typer.Option("--buffers", help="Buffers of memory domains.")] = False,
    executions: Annotated[bool, typer.Option("--executions", help="What waits and runs.")] = False,
    fences: Annotated[bool, typer.Option("--fences", help="Fences that have not signalled.")] = False,
    models: Annotated[bool, typer.Option("--models", help="Models that the framework has loaded.")] = False,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the processes of a testbed, or what they hold. Ids are those that 'nnhal kill' takes."""
    asked = {
        "sessions": sessions,
        "pools": pools,
        "buffers": buffers,
        "executions": executions,
        "fences": fences,
        "models": models,
    }
    chosen = [holding for holding in HOLDINGS if asked[holding.name]]
    with operator_at(directory, admin_key) as operator:
        answer: dict[str, Any] = {}
        if chosen or not models:
            census = take_census(operator)
            if not chosen:
                answer["processes"] = [_entry_as_dict(entry) for entry in census]
            for holding in chosen:
                answer[holding.name] = _held(holding, census)
            if not as_json:
                _show(census, chosen)
        if models:
            answer["models"] = _models(operator, as_json)
        if as_json:
            print_json(answer)


def _show(census: list[CensusEntry], chosen: list[Holding]) -> None:
    if not chosen:
        print_rows(_COLUMNS, map(_row, census), "no processes")
    for holding in chosen:
        rows = [
            holding.row(entry.name, entry.process, item)
            for entry in census
            if entry.process is not None
            for item in getattr(entry.process, holding.name)
        ]
        print_rows(holding.columns, rows, f"no {holding.name}")


def _models(operator: OperatorSession, as_json: bool) -> dict[str, Any]:
    with operator.framework() as admin:
        framework = admin.framework()
    if not as_json:
        print_rows(MODEL_COLUMNS, model_rows(framework), "no models are loaded")
    return {
        "served": [plain(model) for model in framework.models],
        "of_sessions": [plain(model) for model in framework.session_models],
    }


def _held(holding: Holding, census: list[CensusEntry]) -> list[dict[str, Any]]:
    return [
        {"process": entry.name, **plain(item)}
        for entry in census
        if entry.process is not None
        for item in getattr(entry.process, holding.name)
    ]


def _entry_as_dict(entry: CensusEntry) -> dict[str, Any]:
    """What is known of a process; None for what is not."""
    process = entry.process
    return {
        "name": entry.name,
        "kind": entry.kind,
        "supervised": None if entry.supervised is None else plain(entry.supervised),
        "problem": entry.problem or None,
        **(_NOTHING if process is None else {name: plain(process)[name] for name in _NOTHING}),
        "session_count": None if process is None else len(process.sessions),
        "execution_count": None if process is None else len(process.executions),
    }


_NOTHING = dict.fromkeys(
    ("pid", "version", "started_ns", "supervisor", "draining", "log_level", "is_whole", "usage", "at_ns")
)
"""What ``nnhal ps --json`` has of a process that does not answer."""


def _row(entry: CensusEntry) -> tuple[str, ...]:
    supervised, process = entry.supervised, entry.process
    kind = entry.kind
    if supervised is not None and supervised.driver:
        kind = f"{kind}, {supervised.driver}"
    pid = supervised.pid if supervised is not None else process.pid if process is not None else 0
    started_ns = supervised.started_ns if supervised is not None else process.started_ns if process is not None else 0
    return (
        entry.name,
        kind,
        _state(entry),
        str(pid or ""),
        since(started_ns),
        "" if supervised is None else str(supervised.restarts),
        "" if process is None else in_bytes(process.usage.resident_bytes),
        "" if process is None else str(process.usage.threads),
        "" if process is None else str(len(process.sessions)),
        "" if process is None else _work(process),
        _remarks(entry),
    )


def _state(entry: CensusEntry) -> str:
    if entry.supervised is not None:
        return state_name(entry.supervised.state)
    if entry.process is None:
        return "no admin service" if entry.is_there else "silent"
    return "draining" if entry.process.draining else "running"


def _work(process: admin_pb2.GetProcessResponse) -> str:
    running = sum(e.phase == admin_pb2.ExecutionState.PHASE_RUNNING for e in process.executions)
    return f"{running} run, {len(process.executions) - running} wait"


def _remarks(entry: CensusEntry) -> str:
    supervised, process = entry.supervised, entry.process
    remarks = []
    if supervised is not None:
        remarks += list(supervised.addresses)
        if supervised.runs_already and supervised.pid:
            remarks.append("something else starts it")
        if supervised.waits_for:
            remarks.append(f"waits for {supervised.waits_for}")
        if supervised.last_end and not (process is not None and not supervised.restarts):
            remarks.append(f"last end: {supervised.last_end.splitlines()[0]}")
    elif process is not None:
        remarks.append(f"{foreign_supervisor(process.supervisor)} starts it again")
    if entry.problem and (supervised is None or supervised.pid):
        remarks.append(entry.problem)
    if process is not None and not process.is_whole:
        remarks.append(_NO_KEY)
    return "; ".join(remarks)


@dataclass(frozen=True, slots=True)
class CensusEntry:
    """A process."""

    name: str
    kind: str
    supervised: supervisor_pb2.SupervisedProcess | None
    """What the supervisor says of it; None without one."""
    process: admin_pb2.GetProcessResponse | None
    """What it says itself; None if it does not answer, or has nothing to say."""
    problem: str = ""
    """Why it does not answer, or has nothing to say."""
    is_there: bool = False
    """Whether it answers although it has nothing to say."""


def take_census(operator: OperatorSession) -> list[CensusEntry]:
    """Ask the supervisor and all processes, at the same time. Raises NnhalError if there is nothing to ask."""
    reachable = operator.processes()
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="census") as pool:
        entries = list(pool.map(lambda process: _asked(operator, process), reachable))
    if operator.is_supervised:
        known = {entry.name for entry in entries}
        entries += [
            CensusEntry(process.name, process.kind, process, None)
            for process in operator.supervisor.processes().processes
            if process.name not in known
        ]
    return entries


def _asked(operator: OperatorSession, process: Reachable) -> CensusEntry:
    supervised = process.supervised
    if supervised is not None and not supervised.pid:
        return CensusEntry(process.name, process.kind, supervised, None, "it does not run")
    try:
        with operator.admin(process) as admin:
            return CensusEntry(process.name, process.kind, supervised, admin.process())
    except MissingMethodError as error:
        return CensusEntry(process.name, process.kind, supervised, None, f"no admin service: {error}", is_there=True)
    except NnhalError as error:
        return CensusEntry(process.name, process.kind, supervised, None, str(error))
