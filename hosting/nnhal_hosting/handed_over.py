"""Descriptors and memory that clients may hand over: files of all kinds, shared memory, and ends of socket pairs, which
are fences and bells.

A session ends when nobody holds its client's end of the link any more. A process that serves must therefore hold no
such end itself: neither as a descriptor, nor in a descriptor that carries others.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.fence import fault_of_pair
from nnhal.link import Channel
from nnhal_hosting.inflight_descriptors import has_inflight

_SO_COOKIE = 57
_COOKIE = struct.Struct("=Q")
_KERNEL_OBJECT = re.compile(r"(?:anon_inode:)?\[?(\w+)[\]:]")
_EXPECTED = "a file, shared memory, or an end of a pair of unix sockets (a fence or a bell)"


class ChannelEnds:
    """The channels that this process has made, found by the clients' ends. Safe to use from several threads.

    A channel is forgotten when it is.
    """

    def __init__(self) -> None:
        self._channels: WeakValueDictionary[int, Channel] = WeakValueDictionary()

    def add(self, channel: Channel, theirs: Descriptor) -> None:
        """Remember a channel by its other end."""
        with _view(theirs) as end:
            self._channels[_cookie(end)] = channel

    def has(self, end: socket.socket) -> bool:
        """Return whether a socket is the other end of one of the channels."""
        return _cookie(end) in self._channels


def require_usable(descriptors: Sequence[Descriptor], ends: ChannelEnds) -> None:
    """Raise INVALID_ARGUMENT if one is neither a file nor shared memory nor an end of a socket pair.

    Whether it is of the right kind for a call is for the call to say.
    """
    for number, descriptor in enumerate(descriptors, 1):
        fault = _fault(descriptor, ends)
        if fault:
            which = f"descriptor {number} of {len(descriptors)}" if len(descriptors) > 1 else "the descriptor"
            invalid_argument(f"{which} is {fault}; expected {_EXPECTED}")


def _fault(descriptor: Descriptor, ends: ChannelEnds) -> str:
    mode = os.fstat(descriptor.fileno()).st_mode
    if stat.S_ISSOCK(mode):
        return _fault_of_socket(descriptor, ends)
    # Some objects of the kernel, such as namespaces and processes, look like regular files.
    return _kernel_object(descriptor) or ("" if stat.S_IFMT(mode) else "an unknown object of the kernel")


def _fault_of_socket(descriptor: Descriptor, ends: ChannelEnds) -> str:
    fault = fault_of_pair(descriptor)
    if fault:
        return fault
    with _view(descriptor) as end:
        if ends.has(end):
            return "an end of a channel of this process"
    try:
        return "a socket in which other descriptors wait to be received" if has_inflight(descriptor) else ""
    except OSError as error:
        raise host_failure("a socket cannot be looked into", error) from error


def _kernel_object(descriptor: Descriptor) -> str:
    """Say which object of the kernel a descriptor stands for, which is not in a file system; nothing for a file."""
    try:
        target = str(Path(f"/proc/self/fd/{descriptor.fileno()}").readlink())
    except OSError as error:
        raise host_failure("a descriptor cannot be looked at", error) from error
    found = None if target.startswith(("/", "pipe:")) else _KERNEL_OBJECT.match(target)
    return f"an object of the kernel ({found[1]})" if found else ""


def _cookie(end: socket.socket) -> int:
    """Return the kernel's number of a socket, which is never used twice."""
    (cookie,) = _COOKIE.unpack(end.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE.size))
    return int(cookie)


@contextmanager
def _view(descriptor: Descriptor) -> Iterator[socket.socket]:
    """Use a descriptor as a socket, of whatever kind it is, without owning it."""
    view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor.fileno())
    try:
        yield view
    finally:
        view.detach()
