"""What all processes are and hold at one moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_tools.operate.operator_session import OperatorSession, Reachable

_AT_A_TIME = 8


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
    """Why it does not answer."""


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
    except NnhalError as error:
        return CensusEntry(process.name, process.kind, supervised, None, str(error))
