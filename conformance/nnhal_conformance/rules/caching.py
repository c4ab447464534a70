"""Compilation caching."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from nnhal.descriptor import Descriptor
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, NotOfferedError, require, rule
from nnhal_conformance.session import DeviceSession, config_of

GROUP = "caching"
_PAGE = "messages.md#fields-that-are-absent"
_TOKEN = bytes(range(32))


def _file(content: bytes = b"") -> Descriptor:
    made = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))
    os.write(made.fileno(), content)
    return made


@dataclass
class _Cache:
    """The files of an entry in a session."""

    session: DeviceSession
    model: list[Descriptor]
    data: list[Descriptor]

    @classmethod
    def of(cls, device: Subject) -> _Cache:
        """New files, with junk in them. Raises NotOfferedError if the device caches nothing."""
        session = device.session()
        message = device_pb2.GetNumberOfCacheFilesNeededRequest()
        needed = session.call(session.device.GetNumberOfCacheFilesNeeded, message).number_of_cache_files
        if not needed.num_model_cache and not needed.num_data_cache:
            raise NotOfferedError("no cache files: each load compiles")
        return cls(
            session,
            [_file(b"junk") for _ in range(needed.num_model_cache)],
            [_file(b"junk") for _ in range(needed.num_data_cache)],
        )

    def save(self, device: Subject) -> device_pb2.Notified:
        """Prepare the small model and write the entry."""
        message = device_pb2.PrepareModelWithConfigRequest(
            model=self.session.model(device.small.model),
            config=config_of(model_cache=self._wire(self.model), data_cache=self._wire(self.data), cache_token=_TOKEN),
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
    """A preparation that was written is restored, whatever the files held before, and computes the same."""
    cache = _Cache.of(device)
    saved = Prepared(cache.session, device.small, cache.save(device).prepared_model)
    outcome = cache.load()
    require(outcome.status == 0, outcome.message, "NONE")
    for held in (saved, Prepared(cache.session, device.small, outcome.prepared_model)):
        work = held.work()
        work.run(lambda held=held, work=work: held.execute(work.request))  # type: ignore[misc]


@rule(GROUP, _PAGE, "CC-12", "CC-13", "CC-16", "CC-20")
def damaged(device: Subject) -> None:
    """Empty, changed or longer model files and another token are GENERAL_FAILURE, without a model."""
    cache = _Cache.of(device)
    if not cache.model:
        raise NotOfferedError("no model cache files: nothing in them can be damaged")
    _require_no_model(_Cache.of(device).load(), "files with junk", FAILURE)
    cache.save(device)
    _require_no_model(cache.load(bytes(32)), "another token", FAILURE)
    descriptor = cache.model[0].fileno()
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    for place in {0, len(content) // 2, len(content) - 1}:
        os.pwrite(descriptor, bytes([content[place] ^ 1]), place)
        _require_no_model(cache.load(), f"a bit of byte {place} changed", FAILURE)
        os.pwrite(descriptor, content[place : place + 1], place)
    os.ftruncate(descriptor, len(content) + 1)
    _require_no_model(cache.load(), "a byte appended", FAILURE)
    os.ftruncate(descriptor, 0)
    _require_no_model(cache.load(), "an empty file", FAILURE)


@rule(GROUP, _PAGE, "CC-03", "CC-04", "CC-05", "CC-06")
def numbers(device: Subject) -> None:
    """With a file too many or too few a preparation succeeds all the same, and restoring does not."""
    for kind in ("model", "data"):
        for what, change in {"too many": 1, "too few": -1}.items():
            cache = _Cache.of(device)
            files: list[Descriptor] = getattr(cache, kind)
            if change > 0:
                files.append(_file())
            elif files:
                files.pop()
            else:
                continue
            outcome = cache.save(device)
            require(outcome.prepared_model > 0, f"{kind} files {what}: no model", "a model that is not cached")
            _require_no_model(cache.load(), f"{kind} files {what}", INVALID, FAILURE)


@rule(GROUP, _PAGE, "CC-19", "PM-08")
def arguments(device: Subject) -> None:
    """A token of another length than 32 bytes is INVALID_ARGUMENT; a deadline that has passed may be missed."""
    cache = _Cache.of(device)
    cache.save(device)
    for token in (bytes(31), bytes(33)):
        _require_no_model(cache.load(token), f"a token of {len(token)} bytes", INVALID)
    outcome = cache.load(deadline_ns=0)
    require(not outcome.status or ErrorStatus(outcome.status) in MISSED, f"{outcome}", "NONE or MISSED_DEADLINE")
