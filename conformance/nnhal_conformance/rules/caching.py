"""Compilation caching."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model
from nnhal.v1 import device_pb2
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, NotOfferedError, require, rule
from nnhal_conformance.session import DeviceSession, config_of

GROUP = "caching"
_PAGE = "reference/protocol.md#fields-that-are-absent"
_TOKEN = bytes(range(32))


def _file(content: bytes = b"") -> Descriptor:
    made = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))
    os.write(made.fileno(), content)
    return made


@dataclass
class CacheFiles:
    """The files of an entry in a session."""

    session: DeviceSession
    model: list[Descriptor]
    data: list[Descriptor]

    @classmethod
    def of(cls, device: Subject) -> CacheFiles:
        """New files in a session of their own (see ``new``)."""
        return cls.new(device.session())

    @classmethod
    def new(cls, session: DeviceSession) -> CacheFiles:
        """New files, with junk in them. Raises NotOfferedError if the device caches nothing."""
        message = device_pb2.GetNumberOfCacheFilesNeededRequest()
        needed = session.call(session.device.GetNumberOfCacheFilesNeeded, message).number_of_cache_files
        if not needed.num_model_cache and not needed.num_data_cache:
            raise NotOfferedError("no cache files: each load compiles")
        return cls(
            session,
            [_file(b"junk") for _ in range(needed.num_model_cache)],
            [_file(b"junk") for _ in range(needed.num_data_cache)],
        )

    def save(self, model: Model, token: bytes = _TOKEN) -> device_pb2.Notified:
        """Prepare a model and write the entry."""
        message = device_pb2.PrepareModelWithConfigRequest(
            model=self.session.model(model),
            config=config_of(model_cache=self._wire(self.model), data_cache=self._wire(self.data), cache_token=token),
        )
        events, error = self.session.preparation(self.session.device.PrepareModelWithConfig, message)
        require(error is None and bool(events), f"{error}", "a launch")
        require(events[-1].notified.status == 0, events[-1].notified.message, "NONE")
        return events[-1].notified

    def load(self, token: bytes = _TOKEN, **fields: Any) -> device_pb2.Notified:
        """Restore the entry."""
        message = device_pb2.PrepareModelFromCacheRequest(
            model_cache=self._wire(self.model),
            data_cache=self._wire(self.data),
            token=token,
            **{"deadline_ns": -1, **fields},
        )
        events, _ = self.session.preparation(self.session.device.PrepareModelFromCache, message)
        kinds = [event.WhichOneof("event") for event in events]
        require(bool(events) and kinds.count("notified") == 1, f"events {kinds}", "one 'notified'")
        return events[-1].notified

    def _wire(self, files: list[Descriptor]) -> list[device_pb2.CacheFile]:
        return [device_pb2.CacheFile(descriptor_id=self.session.link.issue(each)) for each in files]


def _require_no_model(outcome: device_pb2.Notified, what: str, *statuses: ErrorStatus) -> None:
    require(
        ErrorStatus(outcome.status) in statuses and not outcome.prepared_model,
        f"{what}: {' '.join(str(outcome).split()) or 'NONE'}",
        " or ".join(status.name for status in statuses),
    )


@rule(GROUP, _PAGE, "CC-01", "CC-02", "CC-18")
def restored(device: Subject) -> None:
    """A preparation that was written is restored, whatever the files held and wherever they stood, and computes the
    same, in another session too.
    """
    cache = CacheFiles.of(device)
    saved = Prepared(cache.session, device.small, cache.save(device.small.model).prepared_model)
    for file in (*cache.model, *cache.data):
        os.lseek(file.fileno(), 1, os.SEEK_SET)
    loads = [cache, replace(cache, session=device.session())]
    outcomes = [each.load() for each in loads]
    for outcome in outcomes:
        require(outcome.status == 0, outcome.message, "NONE")
    helds = [
        Prepared(each.session, device.small, outcome.prepared_model)
        for each, outcome in zip(loads, outcomes, strict=True)
    ]
    for held in (saved, *helds):
        work = held.work()
        work.run(partial(held.execute, work.request))


def damages_of(content: bytes) -> dict[str, bytes]:
    """The content of a file, damaged in several ways."""
    places = sorted({0, len(content) // 3, len(content) // 2, len(content) - 1})
    flipped = {
        f"bit {bit} of byte {place} changed": content[:place]
        + bytes([content[place] ^ 1 << bit])
        + content[place + 1 :]
        for place in places
        for bit in (0, 7)
    }
    lengths = (0, 1, 63, 64, 65, len(content) - 1)
    cut = {f"only the first {length} bytes": content[:length] for length in lengths if length < len(content)}
    return {**flipped, **cut, **{f"{more} bytes appended": content + bytes(more) for more in (1, 17, 256)}}


@rule(GROUP, _PAGE, "CC-12", "CC-13", "CC-14", "CC-15", "CC-16", "CC-20")
def damaged(device: Subject) -> None:
    """Empty, changed, shorter or longer files and another token are GENERAL_FAILURE, without a model."""
    cache = CacheFiles.of(device)
    _require_no_model(CacheFiles.of(device).load(), "files with junk", FAILURE)
    cache.save(device.small.model)
    for bit in (0, 100, 255):
        token = (int.from_bytes(_TOKEN, "little") ^ 1 << bit).to_bytes(32, "little")
        _require_no_model(cache.load(token), f"bit {bit} of the token changed", FAILURE)
    for file in (*cache.model, *cache.data):
        content = content_of(file)
        if not content:  # the device keeps nothing there
            continue
        for what, damaged in damages_of(content).items():
            overwrite(file, damaged)
            _require_no_model(cache.load(), what, FAILURE)
        overwrite(file, content)
    require(cache.load().status == 0, "an error with the files as they were", "NONE")


def content_of(file: Descriptor) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def overwrite(file: Descriptor, content: bytes) -> None:
    os.ftruncate(file.fileno(), len(content))
    os.pwrite(file.fileno(), content, 0)


@rule(GROUP, _PAGE, "CC-11")
def of_another_model(device: Subject) -> None:
    """The files of another model, or of another token, restore nothing."""
    cache, other = CacheFiles.of(device), CacheFiles.of(device)
    cache.save(device.small.model)
    other.save(device.small.model, _TOKEN[::-1])
    pairs = [*zip((*cache.model, *cache.data), (*other.model, *other.data), strict=True)]
    for mine, theirs in pairs:
        overwrite(mine, content_of(theirs))
        if content_of(mine):
            _require_no_model(cache.load(), "a file of another token", FAILURE)


def _odd_files() -> dict[str, Descriptor]:
    """Descriptors that are no regular files, or that cannot be read or written."""
    ours, theirs = socket.socketpair()
    ours.close()
    sealed = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.write(sealed.fileno(), b"junk")
    fcntl.fcntl(sealed.fileno(), fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    with tempfile.TemporaryDirectory() as folder:
        fifo = Path(folder) / "fifo"
        os.mkfifo(fifo)
        pipe = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        path = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    numbers = {
        "a fifo": pipe,
        "a path": path,
        "a directory": directory,
        "one end of a socket": theirs.detach(),
        "zeros without end": os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC),
        "a full device": os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC),
    }
    return {"sealed memory": sealed, **{what: Descriptor(number) for what, number in numbers.items()}}


@rule(GROUP, _PAGE, "CC-07", "CC-08")
def odd_files(device: Subject) -> None:
    """A preparation with files that cannot be written succeeds and saves nothing; restoring from them does not."""
    for what, odd in _odd_files().items():
        for kind in ("model", "data"):
            cache = CacheFiles.of(device)
            files: list[Descriptor] = getattr(cache, kind)
            if not files:
                continue
            files[-1] = odd
            name = f"{what} as {kind} file"
            try:
                _require_no_model(cache.load(), name, INVALID, FAILURE)
                outcome = cache.save(device.small.model)
            except HalError as error:  # the link may refuse such a descriptor
                require(error.status == INVALID, f"{name}: {error}", "INVALID_ARGUMENT")
                continue
            require(outcome.prepared_model > 0, f"{name}: no model", "a model that is not cached")
            _require_no_model(cache.load(), name, INVALID, FAILURE)


@rule(GROUP, _PAGE, "CC-03", "CC-04", "CC-05", "CC-06")
def numbers(device: Subject) -> None:
    """With a file too many or too few a preparation succeeds all the same, and restoring does not."""
    for kind in ("model", "data"):
        for what, change in {"too many": 1, "too few": -1}.items():
            cache = CacheFiles.of(device)
            files: list[Descriptor] = getattr(cache, kind)
            if change > 0:
                files.append(_file())
            elif files:
                files.pop()
            else:
                continue
            outcome = cache.save(device.small.model)
            require(outcome.prepared_model > 0, f"{kind} files {what}: no model", "a model that is not cached")
            _require_no_model(cache.load(), f"{kind} files {what}", INVALID, FAILURE)


@rule(GROUP, _PAGE, "CC-19", "PM-08")
def arguments(device: Subject) -> None:
    """A token of another length than 32 bytes is INVALID_ARGUMENT; a deadline that has passed may be missed."""
    cache = CacheFiles.of(device)
    cache.save(device.small.model)
    for token in (b"", bytes(31), bytes(33)):
        _require_no_model(cache.load(token), f"a token of {len(token)} bytes", INVALID)
    require(not cache.load(deadline_ns=None).status, "an error without a deadline", "NONE")
    outcome = cache.load(deadline_ns=0)
    require(not outcome.status or ErrorStatus(outcome.status) in MISSED, f"{outcome}", "NONE or MISSED_DEADLINE")
