"""Facts of /proc about processes: what this one uses, and which one has opened a session."""

from __future__ import annotations

import os
import pwd
import resource
import time
from functools import cache
from pathlib import Path

from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.link_server import Session
from nnhal_hosting.process_start import process_started_ns, status_words

_RESIDENT = 1
"""The field of /proc/PID/statm, counted from 0, in pages."""
_LONGEST_COMMAND = 4096


def process_usage() -> wire.ProcessUsage:
    """Return what this process uses. What cannot be counted for want of a descriptor is 0."""
    return wire.ProcessUsage(
        cpu_ns=time.process_time_ns(),
        resident_bytes=_resident_bytes(),
        threads=_entries("/proc/self/task"),
        descriptors=_entries("/proc/self/fd"),
    )


def command_of(session: Session) -> str:
    """Return the command line of the process that opened a session.

    Empty if that cannot be read: the process is in another container, has ended, or another has its process id by now.
    """
    if session.pid <= 0:
        return ""
    started_ns = process_started_ns(session.pid)
    if started_ns is None or started_ns > session.opened_ns:
        return ""
    try:
        raw = Path(f"/proc/{session.pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw[:_LONGEST_COMMAND].rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def is_in_own_pid_namespace(session: Session) -> bool:
    """True if the process that opened a session is in the PID namespace of this one; one in a namespace below is not.

    This process sees those below too, by numbers of its own: those of containers, if it runs on the host itself.
    """
    if session.pid <= 0:
        return False
    started_ns, namespaces = process_started_ns(session.pid), _namespaces_of(session.pid)
    if started_ns is None or started_ns > session.opened_ns:  # it has ended, or another has its process id by now
        return False
    return namespaces > 0 and namespaces == _namespaces_of(os.getpid())


@cache
def user_name(uid: int) -> str:
    """Return the name of a user; empty if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _namespaces_of(pid: int) -> int:
    """In how many PID namespaces, of those that this process sees, a process has a number; 0 if that is not known."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return len(status_words(status, "NSpid"))


def _resident_bytes() -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[_RESIDENT]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _entries(folder: str) -> int:
    try:
        return len(list(Path(folder).iterdir()))
    except OSError:
        return 0
