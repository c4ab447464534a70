"""Check that this process and those of nnhal share the namespaces that they need to share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnhal_tools.doctor.finding import DoctorFinding, ok, warn
from nnhal_tools.doctor.sockets import ListeningSocket

_NEEDS = {
    "ipc": "system shared memory in /dev/shm may be another's",
    "pid": "processes cannot be distinguished by their numbers",
    "net": "addresses on this host's loopback are not reached",
}
_TODO = {
    "ipc": "share it (docker: --ipc=container:…) or use the native client, which passes descriptors",
    "pid": "share it (docker: --pid=container:…)",
    "net": "use the unix sockets, or publish the ports",
}


def check_namespaces(listeners: Sequence[ListeningSocket], proc: Path) -> Iterator[DoctorFinding]:
    """Compare the namespaces of each listening process with those of this process."""
    processes = {listener.pid: listener.path.parent.name for listener in listeners}
    for pid, name in processes.items():
        yield check_process(name, pid, proc)


def check_process(name: str, pid: int, proc: Path) -> DoctorFinding:
    """Check one process. Its number is 0 if this process's PID namespace does not see it."""
    check = f"namespaces of {name}"
    if pid == 0:
        return warn(check, f"another pid namespace: {_NEEDS['pid']}", _TODO["pid"])
    different, hidden = [], []
    for kind in _NEEDS:
        ours, theirs = _link(proc / "self/ns" / kind), _link(proc / str(pid) / "ns" / kind)
        if theirs is None or ours is None:
            hidden.append(kind)
        elif ours != theirs:
            different.append(kind)
    if different:
        words = "; ".join(f"another {kind} namespace: {_NEEDS[kind]}" for kind in different)
        return warn(check, words, "; ".join(_TODO[kind] for kind in different))
    if hidden:
        return warn(check, f"process {pid} does not show its {', '.join(hidden)}", "run as its user to compare them")
    return ok(check, f"process {pid} shares {', '.join(_NEEDS)}")


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - the link's target is no path
    except OSError:
        return None
