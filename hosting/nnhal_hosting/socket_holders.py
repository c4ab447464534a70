"""Processes that hold the other end of a unix socket."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from nnhal_hosting.process_start import process_started_ns, status_words
from nnhal_hosting.socket_diagnosis import ALL_STATES, ANY_COOKIE, SocketDiagnosis

_PROC = Path("/proc")
_SHOW_PEER = 4
_ATTRIBUTE_PEER = 2
_QUESTION = struct.Struct("=BBHIII8s")
_ANSWER_BYTES = 16
_ATTRIBUTE = struct.Struct("=HH")
_INODE = struct.Struct("=I")


@dataclass(frozen=True, slots=True)
class Holders:
    """Facts about other processes than this one."""

    by_inode: dict[int, int]
    """For each socket that is held, a process that holds it."""
    hidden: tuple[HiddenProcess, ...]
    """Processes whose descriptors cannot be read."""


@dataclass(frozen=True, slots=True)
class HiddenProcess:
    """A process whose descriptors cannot be read."""

    pid: int
    uids: frozenset[int]
    started_ns: int
    """When it was started, by CLOCK_BOOTTIME, rounded down to a tick."""


def peer_inode(connection: int) -> int | None:
    """Return the inode of the other end of a connected unix socket; None if the kernel does not say.

    It does not if the other end is of another network namespace.
    """
    question = _QUESTION.pack(socket.AF_UNIX, 0, 0, ALL_STATES, os.fstat(connection).st_ino, _SHOW_PEER, ANY_COOKIE)
    try:
        answer = SocketDiagnosis().answer(question) or b""
    except OSError:
        return None
    at = _ANSWER_BYTES
    while at + _ATTRIBUTE.size <= len(answer):
        size, attribute = _ATTRIBUTE.unpack_from(answer, at)
        if attribute == _ATTRIBUTE_PEER:
            (inode,) = _INODE.unpack_from(answer, at + _ATTRIBUTE.size)
            return int(inode)
        at += (size + 3) & ~3
    return None


def find_holders(inodes: Collection[int]) -> Holders | None:
    """Look which processes besides this one hold the sockets of these inodes.

    Returns None if that cannot be known: /proc cannot be read, or is that of another PID namespace.
    """
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    own = os.getpid()
    found: dict[int, int] = {}
    hidden = []
    try:
        if str((_PROC / "self").readlink()) != str(own):
            return None
        pids = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    except OSError:
        return None
    for pid in pids:
        if pid == own:
            continue
        try:
            for inode in _held(pid, wanted):
                found.setdefault(inode, pid)
        except PermissionError:
            process = _hidden(pid)
            if process is not None:
                hidden.append(process)
    return Holders(found, tuple(hidden))


def _held(pid: int, wanted: dict[str, int]) -> Iterator[int]:
    """Yield the inodes of wanted sockets that a process holds. Raises PermissionError."""
    directory = _PROC / str(pid)
    numbers = _entries(directory / "fd")
    if not numbers:  # the first thread may have ended before the others
        threads = [directory / "task" / thread / "fd" for thread in _entries(directory / "task")]
    else:
        threads = [directory / "fd"]
    for thread in threads:
        for number in numbers or _entries(thread):
            try:
                target = str((thread / number).readlink())
            except FileNotFoundError:  # it was closed, or the process has ended
                continue
            if target in wanted:
                yield wanted[target]


def _entries(directory: Path) -> list[str]:
    """Raises PermissionError. A process that has ended has none."""
    try:
        return [entry.name for entry in directory.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _hidden(pid: int) -> HiddenProcess | None:
    """Return None if the process has ended. Raises OSError if this one lacks what it takes to look."""
    try:
        status = (_PROC / str(pid) / "status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    started_ns = process_started_ns(pid)
    uids = frozenset(map(int, status_words(status, "Uid")))
    return None if not uids or started_ns is None else HiddenProcess(pid, uids, started_ns)
