"""What each kind of thread takes for a request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.processes import SystemCalls, ThreadUsage, process_ns, threads_of

ENDED = "threads that ended"


@dataclass(frozen=True, slots=True)
class UsageOfRole:
    """What the threads of one role take for a request, on average."""

    process: str
    """What the process is."""
    role: str
    """What the threads are; ``threads that ended`` are those that lived only during the series."""
    threads: int
    """How many there are."""
    wakes: float
    """How often one blocked, to be woken later. Of threads that ended this is not known, and 0."""
    preemptions: float
    """How often one had to leave its processor to another."""
    processor_us: float
    """Time on a processor."""
    calls: float | None
    """System calls; None if they were not counted."""


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """What processes have taken since they started."""

    processes: Mapping[str, list[int]]
    """The ids of the processes by what they are."""
    threads: Mapping[int, Mapping[int, ThreadUsage]]
    """The living threads of each process."""
    processor_ns: Mapping[int, int]
    """The time of each process on processors, with that of threads that have ended."""

    @staticmethod
    def of(processes: Mapping[str, list[int]]) -> UsageSnapshot:
        """The present usage. Raises OSError if a process has ended."""
        pids = [pid for own in processes.values() for pid in own]
        return UsageSnapshot(processes, {pid: threads_of(pid) for pid in pids}, {pid: process_ns(pid) for pid in pids})


def usage_between(
    before: UsageSnapshot, after: UsageSnapshot, requests: int, calls: SystemCalls | None, counted: int
) -> list[UsageOfRole]:
    """What happened between two moments, for each of ``requests``; the calls are those of ``counted`` requests."""
    return [
        row
        for process, pids in after.processes.items()
        for row in _rows(process, pids, before, after, requests, calls, counted)
    ]


def _rows(
    process: str,
    pids: list[int],
    before: UsageSnapshot,
    after: UsageSnapshot,
    requests: int,
    calls: SystemCalls | None,
    counted: int,
) -> list[UsageOfRole]:
    roles: dict[str, list[ThreadUsage]] = defaultdict(list)
    ended_ns = 0
    for pid in pids:
        ended_ns += after.processor_ns[pid] - before.processor_ns[pid]
        for tid, thread in after.threads[pid].items():
            during = thread.since(before.threads[pid].get(tid))
            roles[during.role].append(during)
            ended_ns -= during.processor_ns
    called = {role for own, role, _ in calls.counts if own in pids} if calls is not None else set()
    rows = []
    for role in (*roles, *sorted(called - roles.keys())):
        own = roles.get(role, [])
        rows.append(
            UsageOfRole(
                process=process,
                role=role,
                threads=len(own),
                wakes=sum(thread.wakes for thread in own) / requests,
                preemptions=sum(thread.preemptions for thread in own) / requests,
                processor_us=sum(thread.processor_ns for thread in own) / requests / 1e3,
                calls=None if calls is None else sum(calls.of_role(pid, role) for pid in pids) / counted,
            )
        )
    rows.append(UsageOfRole(process, ENDED, 0, 0.0, 0.0, max(0, ended_ns) / requests / 1e3, None))
    return sorted(rows, key=lambda row: -row.processor_us)
