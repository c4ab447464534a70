"""Folders of sockets and of code: nobody but their owner and root may change or replace them.

A folder is opened step by step from the root, without following links, so that what was looked at is what is used.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nnhal.user_numbers import known_user

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_ONLY = 0o700
_GROUP_TOO = 0o750
_ROOT = 0


def make_private_folder(path: Path, group: int | None = None) -> None:
    """Make a folder, and those above it that are missing, with mode 0700 whatever the umask.

    With a ``group``, new folders belong to it and have mode 0750; a folder that exists is not changed.
    One that is there must be this user's, and nobody else may write to it; those above it are this user's or
    root's, and others may write to them only if they are sticky, as /tmp is. Raises OSError, or ValueError in words.
    """
    _walk(path, {os.geteuid()}, is_made=True, group=group)


def give_to_group(path: Path, group: int, mode: int) -> None:
    """Give a group what is at a path, with that mode. Raises ValueError if this process may not, OSError."""
    try:
        if path.stat().st_gid != group:  # services often may not change groups, and what they make is the group's
            os.chown(path, -1, group)
    except PermissionError:
        raise ValueError(f"group {group}: user {os.geteuid()} is not in it, expected a group of that user") from None
    path.chmod(mode)


def require_trusted_folder(path: Path, owners: Collection[int]) -> None:
    """Raise OSError or ValueError if anybody but root and these users could change a folder or what it holds."""
    _walk(path, {_ROOT, *owners}, is_made=False)


def require_trusted_file(path: Path, owners: Collection[int]) -> None:
    """Raise OSError or ValueError if anybody but root and these users could change a file, or put another in its place.

    The file is the one that links lead to.
    """
    path = Path(os.path.realpath(path))
    require_trusted_folder(path.parent, owners)
    file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require(file, path, {_ROOT, *owners}, may_be_sticky=False)
    finally:
        os.close(file)


def _walk(path: Path, owners: Collection[int], is_made: bool, group: int | None = None) -> None:
    path = Path(os.path.realpath(path))
    folder = os.open("/", _STEP)
    try:
        for step in [*reversed(path.parents[:-1]), path]:
            _require(folder, step.parent, {_ROOT, *owners}, may_be_sticky=True)
            with _whole_path(step):
                folder = _next(folder, step.name, is_made, group)
        _require(folder, path, owners, may_be_sticky=False)
    finally:
        os.close(folder)


@contextmanager
def _whole_path(path: Path) -> Iterator[None]:
    """Have errors name the path, of which the system was given the last part only."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _next(folder: int, name: str, is_made: bool, group: int | None) -> int:
    """Open a folder in another one, which is closed if that succeeds, and made if it is missing and may be made."""
    try:
        found = os.open(name, _STEP, dir_fd=folder)
    except FileNotFoundError:
        if not is_made:
            raise
        with suppress(FileExistsError):  # another process of this user has made it meanwhile
            os.mkdir(name, _OWN_ONLY, dir_fd=folder)
        found = os.open(name, _STEP, dir_fd=folder)
        if os.fstat(found).st_uid == os.geteuid():
            made = Path(f"/proc/self/fd/{found}")  # what was opened, so that nothing else can be hit
            made.chmod(_OWN_ONLY)
            if group is not None:
                give_to_group(made, group, _GROUP_TOO)
    os.close(folder)
    return found


def _require(folder: int, path: Path, owners: Collection[int], may_be_sticky: bool) -> None:
    status = os.fstat(folder)
    if known_user(status.st_uid) not in owners:
        expected = " or ".join(str(owner) for owner in sorted(owners))
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
        raise ValueError(f"{path}: a {kind} of user {status.st_uid}, expected one of user {expected}")
    mode = stat.S_IMODE(status.st_mode)
    others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_of_one(status.st_gid, status.st_uid))
    if others and not (may_be_sticky and mode & stat.S_ISVTX):
        raise ValueError(
            f"{path}: mode {mode:04o} lets others write there, expected one that its user alone may change"
        )


def _is_of_one(group: int, user: int) -> bool:
    """Return whether a group has one user alone, as the groups that are named after their users.

    Others are not believed: a directory service need not tell all users who have a group.
    """
    try:
        if grp.getgrgid(group).gr_name != pwd.getpwuid(user).pw_name:
            return False
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:
        return False
    return members | {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group} == {user}
