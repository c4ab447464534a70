"""The address of a process of nnhal: a directory with a gRPC socket and a link socket."""

from __future__ import annotations

import contextlib
import grp
import os
from dataclasses import dataclass
from pathlib import Path

from nnhal.given_files import read_given_file
from nnhal.private_folders import give_to_group, make_private_folder, require_trusted_folder
from nnhal.whole_files import write_whole

SERVER_UIDS = "NNHAL_SERVER_UIDS"
GROUP = "NNHAL_GROUP"
_SERVICES = ("device", "framework")
_ID_DIGITS = 10
_SOCKET_OF_GROUP = 0o660

_MOST_TROUBLE_BYTES = 1024
_SYSTEM_DIRECTORY = Path("/run/nnhal")
_MAX_PATH_BYTES = 107
"""The longest path that fits sockaddr_un, without the terminating zero."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One process's directory. ``service``, device or framework, is the gRPC socket's name."""

    directory: Path
    service: str = "device"

    @property
    def rpc(self) -> Path:
        return self.directory / f"{self.service}.sock"

    @property
    def link(self) -> Path:
        return self.directory / "link.sock"

    @property
    def address(self) -> str:
        """The address of the gRPC socket, as gRPC writes it."""
        return f"unix:{self.rpc}"

    def create(self, option: str = "--endpoint") -> None:
        """Make the directory, for this user, and to look into for the group of NNHAL_GROUP, if one is named.

        ``option`` is what names another one, which errors say. Raises OSError, or ValueError if its path cannot be a
        socket's, if others own it or may write to it, or if the group is none of this user's.
        """
        try:
            self._create()
        except OSError as error:
            reason = error.strerror or error
            raise OSError(f"{error.filename or self.directory}: {reason}; {option} names another directory") from error
        except ValueError as error:
            raise ValueError(f"{error}; {option} names another directory") from error

    def _create(self) -> None:
        length = len(str(self.rpc).encode())
        if length > _MAX_PATH_BYTES:
            raise ValueError(f"{self.rpc} has {length} bytes, a socket's path may have {_MAX_PATH_BYTES}")
        if "," in str(self.rpc):
            raise ValueError(
                f"{self.rpc} has a comma, at which gRPC would end the path: expected a directory without one"
            )
        make_private_folder(self.directory, folder_group())

    def write_trouble(self, reason: str) -> None:
        """Leave word in the directory of why no process serves there: for those who look, in one line.

        Does nothing if the directory cannot be used.
        """
        with contextlib.suppress(OSError, ValueError):
            self.create()
            write_whole(self._trouble, reason.encode()[:_MOST_TROUBLE_BYTES], writer=f"{os.getpid()}")

    def clear_trouble(self) -> None:
        """Undo ``write_trouble``, since a process serves."""
        self._trouble.unlink(missing_ok=True)

    @property
    def trouble(self) -> str:
        """Return why no process serves there, as the last one that tried has left word; empty if none has."""
        return _left_word(self._trouble)

    def write_end(self, end: str) -> None:
        """Leave word in the directory of how its last process ended, as ``process PID was killed by SIGSEGV``."""
        with contextlib.suppress(OSError, ValueError):
            write_whole(self._last_end, end.encode()[:_MOST_TROUBLE_BYTES], writer=f"{os.getpid()}")

    def end_of(self, pid: int) -> str:
        """The end of a process that served there, in the words that its watcher left; empty if nobody did."""
        word = _left_word(self._last_end)
        return word.removeprefix(f"process {pid} ") if word.startswith(f"process {pid} ") else ""

    @property
    def _trouble(self) -> Path:
        return self.directory / "trouble"

    @property
    def _last_end(self) -> Path:
        return self.directory / "last_end"

    def admit_group(self) -> None:
        """Let the group of NNHAL_GROUP, if one is named, connect to both sockets. Raises OSError or ValueError."""
        group = folder_group()
        if group is not None:
            for path in (self.rpc, self.link):
                give_to_group(path, group, _SOCKET_OF_GROUP)

    def trusted(self) -> Endpoint:
        """Return this endpoint without links in its path, so that its two sockets belong to the same process.

        Raises ValueError if somebody could change its directory who is neither this user, nor root, nor in
        NNHAL_SERVER_UIDS; OSError if that cannot be seen.
        """
        directory = Path(os.path.realpath(self.directory))
        # What is not there, or may not be entered, is told by who connects, and cannot.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            require_trusted_folder(directory, server_uids())
        return Endpoint(directory, self.service)


def _left_word(path: Path) -> str:
    """A line that was left in a file; empty if there is none."""
    try:
        text = read_given_file(path, _MOST_TROUBLE_BYTES, "the word of a process")
    except (OSError, ValueError):
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in text.decode(errors="replace"))


def default_directory() -> Path:
    """Return the directory of a testbed that none is named for: /run/nnhal for root, and for a user whose it is.

    Other users have ``nnhal`` in the folder of XDG_RUNTIME_DIR or, if that is not theirs, one in /tmp of their own.
    Programs in C++ look there too (sdk/cpp/core/session.cpp).
    """
    user = os.geteuid()
    if user == 0 or _is_of(_SYSTEM_DIRECTORY, user):
        return _SYSTEM_DIRECTORY
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_of(Path(runtime), user):
        return Path(runtime, "nnhal")
    return Path(f"/tmp/nnhal-{user}")


def _is_of(folder: Path, user: int) -> bool:
    try:
        return folder.stat().st_uid == user
    except OSError:
        return False


def endpoints_below(directory: Path) -> list[Endpoint]:
    """The devices and frameworks that have sockets in folders of a directory, whether they answer or not, by name.

    A device that could not start, and has left word of it, is one of them.
    """
    return [
        Endpoint(folder, service)
        for folder in (sorted(directory.iterdir()) if directory.is_dir() else ())
        for service in _SERVICES
        if Endpoint(folder, service).rpc.is_socket() or (service == "device" and Endpoint(folder).trouble)
    ]


def folder_group() -> int | None:
    """The group of NNHAL_GROUP, a name or a number, that may open sockets here; None without one. Raises ValueError."""
    text = os.environ.get(GROUP, "")
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS:
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):
        raise ValueError(f"{GROUP} {text!r:.80}: expected the name or the number of a group") from None


def server_uids() -> frozenset[int]:
    """The users besides root whose processes this one sends its data to: its own, and those of NNHAL_SERVER_UIDS.

    Raises ValueError if that is no list of numbers with commas.
    """
    text = os.environ.get(SERVER_UIDS, "")
    words = [word.strip() for word in text.split(",")] if text else []
    if not all(word.isascii() and word.isdigit() and len(word) <= _ID_DIGITS for word in words):
        raise ValueError(f"{SERVER_UIDS} {text!r:.80}: expected numbers of users with commas between")
    return frozenset({os.geteuid(), *map(int, words)})
