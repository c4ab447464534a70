"""Messages to a service manager such as systemd (sd_notify(3)), and the sockets that it gives (sd_listen_fds(3))."""

from __future__ import annotations

import os
import socket
from functools import cache

_FIRST_PASSED = 3
"""The number of the first descriptor that is handed over."""
_NOTIFY, _PID, _COUNT, _NAMES = "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
SERVES = "READY=1"
ENDS = "STOPPING=1"
WORKS = "WATCHDOG=1"
_WATCHDOG, _WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"
_OFTEN = 4
"""How many times a process says that it works in the time after which the manager ends it."""


def notify_manager(state: str) -> None:
    """Tell the service manager what this process does: SERVES, WORKS or ENDS. Does nothing if nobody wants to know.

    Raises OSError if the manager does not listen.
    """
    address = os.environ.get(_NOTIFY, "")
    if not address:
        return
    if address.startswith("@"):  # an abstract name
        address = "\0" + address[1:]
    try:
        _notifier().sendto(state.encode(), address)
    except OSError as error:
        raise OSError(f"the service manager does not listen at {_NOTIFY} {os.environ[_NOTIFY]!r}: {error}") from error


@cache
def _notifier() -> socket.socket:
    """The socket for all that is told: a process whose clients have all descriptors still says that it works."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)


def seconds_between_signs() -> float | None:
    """Return how often the service manager expects WORKS (sd_watchdog_enabled(3)); None if it does not want to know."""
    wanted, process = os.environ.get(_WATCHDOG, ""), os.environ.get(_WATCHDOG_PID, "")
    if not wanted.isdecimal() or process not in ("", str(os.getpid())):
        return None
    return max(int(wanted), 1) / 1e6 / _OFTEN


def watchdog_variables(seconds: float) -> dict[str, str]:
    """The variables by which a process learns that it is to tell WORKS, or another sign, within so many seconds.

    With 0 it is not to.
    """
    return {_WATCHDOG: str(round(seconds * 1e6)) if seconds else "", _WATCHDOG_PID: ""}


def manager_variables(address: str) -> dict[str, str]:
    """The variables by which a process learns that a service manager listens at the path of a socket."""
    return {_NOTIFY: address}


def passed_sockets() -> dict[str, socket.socket]:
    """Take the listening sockets that the service manager hands over to this process, by the names that it gives them.

    A second call returns none. Raises ValueError if two have the same name, or the environment is malformed.
    """
    taken = {name: os.environ.pop(name, "") for name in (_PID, _COUNT, _NAMES)}
    if not taken[_COUNT] or taken[_PID] != str(os.getpid()):  # those of a parent are not this process's
        return {}
    try:
        count = int(taken[_COUNT])
    except ValueError:
        raise ValueError(f"{_COUNT} {taken[_COUNT]!r}, expected a number of descriptors") from None
    names = taken[_NAMES].split(":") if taken[_NAMES] else []
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"{_NAMES} {taken[_NAMES]!r}, expected {count} different names, such as FileDescriptorName= gives"
        )
    passed = {}
    for number, name in enumerate(names, _FIRST_PASSED):
        os.set_inheritable(number, False)
        passed[name] = socket.socket(fileno=number)
    return passed
