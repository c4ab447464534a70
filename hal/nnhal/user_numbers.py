"""The numbers of users, as the kernel tells them to a process of a user namespace."""

from __future__ import annotations

from functools import cache
from pathlib import Path

UNKNOWN_USER = -1
"""Stands for every user who has no number here; nobody is allowed anything as that user."""
_ALL_USERS = ["0", "0", str(2**32 - 1)]
"""The map of the first user namespace."""
_USUAL_OVERFLOW = 65534


def known_user(uid: int) -> int:
    """Return the number of a user as the kernel has told it, or UNKNOWN_USER if it stands for all that have none here.

    So it may in a user namespace that does not have all users, as in a container without root: the kernel shows the
    others by one number, which a user of the namespace may have too.
    """
    return UNKNOWN_USER if uid == _overflow_uid() else uid


@cache
def _overflow_uid() -> int:
    try:
        if Path("/proc/self/uid_map").read_text().split() == _ALL_USERS:
            return UNKNOWN_USER
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except OSError:
        return _USUAL_OVERFLOW
