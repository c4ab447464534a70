"""The directories of the processes, their sockets, who may reach them, and whether a process answers on them."""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal.endpoint import GROUP, SERVER_UIDS, folder_group, server_uids
from nnhal.private_folders import require_trusted_folder
from nnhal_tools.doctor.finding import DoctorFinding, fail, ok, warn

MAX_PATH_BYTES = 107
"""Bytes of a path in sockaddr_un, without the terminating zero (unix(7))."""
_LONGEST = "framework/inference.sock"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_GROUP_ENTERS = stat.S_IRGRP | stat.S_IXGRP
_ROOT = 0
_SECONDS = 2.0
_CREDENTIALS = "iII"
"""struct ucred: process, user, group."""
_LINK = "link.sock"


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket on which a process listens, and that process."""

    path: Path
    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class _Trust:
    """Whose processes clients of this user talk to, and which group may reach the sockets of this user."""

    uids: frozenset[int]
    group: int | None

    def strangers(self, folder: os.stat_result) -> int:
        """Return what a folder's mode lets others do who are not meant to."""
        mode = stat.S_IMODE(folder.st_mode) & _OTHERS
        is_for_group = folder.st_gid == self.group or folder.st_uid != os.geteuid()  # this user may be in by the group
        return mode & ~_GROUP_ENTERS if is_for_group else mode


def check_directory(directory: Path) -> Iterator[DoctorFinding]:
    """Check that it exists, that only this user has access, and that its path is short enough for sockets."""
    size = len(os.fsencode(directory / _LONGEST))
    if size > MAX_PATH_BYTES:
        message = f"{directory}: a socket's path there has {size} bytes, {MAX_PATH_BYTES} are allowed"
        yield fail("directory", message, "choose a shorter one with --directory or NNHAL_DIRECTORY")
    try:
        found = directory.stat()
    except FileNotFoundError:
        yield _check_missing(directory)
        return
    except OSError as error:
        yield fail("directory", f"{directory}: {error.strerror}", "run as the user that started nnhal")
        return
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        yield fail("directory", f"{directory} is no directory", "name another with --directory")
    elif not os.access(directory, os.R_OK | os.X_OK):
        yield fail(
            "directory", f"{directory} has mode {mode:o} and another owner", "run as the user that started nnhal"
        )
    elif mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield warn(
            "directory", f"{directory} has mode {mode:o}: others may replace its sockets", f"chmod 700 {directory}"
        )
    else:
        yield ok("directory", f"{directory}, mode {mode:o}")


def _check_missing(directory: Path) -> DoctorFinding:
    """Say whether ``nnhal up`` of this user can make a directory that is not there."""
    above = next(path for path in directory.parents if path.exists())
    message, other = f"{directory} is not there", "name another with --directory or NNHAL_DIRECTORY"
    try:
        require_trusted_folder(directory, {os.geteuid()})
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        return fail("directory", f"{message}, and 'nnhal up' cannot make it: {error}", other)
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        return fail("directory", f"{message}, and user {os.geteuid()} may not make it in {above}", other)
    return warn("directory", message, f"'nnhal up' makes it; or {other}")


def sockets_in(directory: Path) -> list[Path]:
    """Check the sockets of all processes under a directory."""
    try:
        return sorted(path for path in directory.glob("*/*.sock") if path.is_socket())
    except OSError:
        return []


def listener_of(path: Path) -> ListeningSocket | OSError:
    """The listener on a socket, or what is wrong with it."""
    with socket.socket(socket.AF_UNIX, _kind(path)) as probe:
        probe.settimeout(_SECONDS)
        try:
            probe.connect(str(path))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
        except OSError as error:
            return error
    pid, uid, _ = struct.unpack(_CREDENTIALS, credentials)
    return ListeningSocket(path, pid, uid)


def _check_socket(path: Path, found: ListeningSocket | OSError, trust: _Trust) -> DoctorFinding:
    """Check that a process listens, that clients of this user trust it, and that only its user and group reach it."""
    check = f"socket {path.parent.name}/{path.name}"
    if isinstance(found, ConnectionRefusedError):
        return warn(check, "stale: no process listens", f"start the process again, or rm {path}")
    if isinstance(found, OSError):
        return fail(check, f"cannot be connected to: {found.strerror or found}", "run as the user that started nnhal")
    try:
        folder = path.parent.stat()
    except OSError as error:
        return fail(check, f"{path.parent}: {error.strerror}", "run as the user that started nnhal")
    for uid, whose in ((found.uid, f"process {found.pid}"), (folder.st_uid, str(path.parent))):
        if uid not in {_ROOT, *trust.uids}:
            message = f"{whose} is of user {uid}: programs of user {os.geteuid()} send it nothing"
            return fail(check, message, f"run them as user {uid}, or set {SERVER_UIDS}={uid} if it is to serve them")
    if trust.strangers(folder):
        message = f"process {found.pid}; others reach it, mode {stat.S_IMODE(folder.st_mode):o}"
        return warn(check, message, f"chmod 700 {path.parent}; for a group name it in {GROUP}")
    return ok(check, f"process {found.pid} listens")


def check_health(path: Path) -> DoctorFinding:
    """Check the status of a process over grpc.health.v1."""
    check = f"health {path.parent.name}/{path.name}"
    with grpc.insecure_channel(f"unix:{path}") as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        except grpc.RpcError as error:
            code = getattr(error, "code", lambda: None)()
            words = code.name if code is not None else str(error)
            return fail(check, f"no answer: {words}", "see the process's log; start it again")
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return ok(check, name)
    return fail(check, name, "see the process's log: it starts, ends, or a model has failed")


def check_sockets(directory: Path) -> tuple[list[DoctorFinding], list[ListeningSocket]]:
    """All sockets under a directory, with their listeners."""
    findings: list[DoctorFinding] = []
    listeners: list[ListeningSocket] = []
    try:
        trust = _Trust(server_uids(), folder_group())
    except ValueError as error:
        findings.append(fail("trust", str(error), "set it so, or unset it: no process starts and no client connects"))
        trust = _Trust(frozenset({os.geteuid()}), None)
    for path in sockets_in(directory):
        found = listener_of(path)
        findings.append(_check_socket(path, found, trust))
        if isinstance(found, ListeningSocket):
            listeners.append(found)
            if path.name != _LINK:
                findings.append(check_health(path))
    return findings, listeners


def _kind(path: Path) -> socket.SocketKind:
    return socket.SOCK_SEQPACKET if path.name == _LINK else socket.SOCK_STREAM
