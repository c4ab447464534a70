"""The file in which a history outlasts its process: arrays as numpy writes them, replaced as a whole."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from nnhal.given_arrays import unpack_arrays
from nnhal.given_files import read_given_file
from nnhal.v1 import supervisor_pb2
from nnhal.whole_files import write_whole
from nnhal_dashboard.monitoring.ring import RANGES, SAMPLES, TIERS, Ring, RingColumn
from nnhal_hosting.logs import get_logger

MOST_BYTES = 16 << 20
"""The file is never longer."""
FORM = 1
"""Counts the forms of the file. One of another form is not read."""
_EVENT_CHARACTERS = 300
"""What is kept of the text of an event."""
_OF_EVENT = ("at_ns", "subject", "kind", "text", "who", "before")
"""The fields of an event in the file; files of before have fewer."""
_log = get_logger(__name__)


class KeptHistory(NamedTuple):
    ring: Ring
    events: Sequence[supervisor_pb2.ProcessEvent]
    """The oldest first."""


class HistoryFile:
    """A file that only its owner may read. Trouble with it is logged once, and costs only what it kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_failed = False

    def read(self, occasions: Mapping[str, Sequence[str]]) -> KeptHistory | None:
        """Return what was kept (``occasions`` are those of ``Ring``); None if there is nothing that can be used."""
        why = "it is damaged"
        try:
            content = self._content()
            return None if content is None else _kept(content, occasions)
        except OSError as error:
            why = error.strerror or str(error)
        except _OtherFormError as error:
            why = str(error)
        except Exception as error:  # whatever numpy makes of bytes that it has not written
            _log.debug("the history cannot be read", error=repr(error))
        _log.warning(f"the history in {self._path} is begun anew: {why}")
        return None

    def write(self, kept: KeptHistory) -> None:
        """Replace the file."""
        try:
            write_whole(self._path, _content(kept), writer="new")
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning(f"the history cannot be kept in {self._path}: {error.strerror}")

    def _content(self) -> bytes | None:
        try:
            return read_given_file(self._path, MOST_BYTES, "a history", follows=False, shown="it")
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise _OtherFormError(str(error)) from error


class _OtherFormError(ValueError):
    """The file is none that this dashboard has written."""


def _content(kept: KeptHistory) -> bytes:
    ring, columns = kept.ring, list(kept.ring.columns.values())
    about = {
        "form": FORM,
        "names": list(ring.columns),
        "known": [each.known for each in columns],
        "settled": ring.settled,
        "events": [_kept_event(each) for each in kept.events],
    }
    arrays: dict[str, NDArray[Any]] = {
        "about": np.frombuffer(orjson.dumps(about), np.uint8),
        "at": ring.at,
        "seconds": ring.seconds,
        "durations": ring.durations.astype(np.uint32),
        "samples": np.array([each.samples for each in columns], np.float32),
    }
    for number, counts in enumerate(ring.tier_durations):
        arrays[f"durations_{number}"] = counts.astype(np.uint32)
        arrays[f"tier_{number}"] = np.array([each.tiers[number] for each in columns], np.float32)
    written = io.BytesIO()
    np.savez(written, **cast(Any, arrays))
    return written.getvalue()


def _kept_event(event: supervisor_pb2.ProcessEvent) -> list[int | str]:
    values = [getattr(event, name) for name in _OF_EVENT]
    return [value[:_EVENT_CHARACTERS] if isinstance(value, str) else value for value in values]


def _kept(content: bytes, occasions: Mapping[str, Sequence[str]]) -> KeptHistory:
    """Read a file. Raises _OtherFormError, or whatever numpy raises, if it is none."""
    arrays = unpack_arrays(io.BytesIO(content))
    about = orjson.loads(arrays["about"].tobytes())
    if about["form"] != FORM:
        raise _OtherFormError(f"it has form {about['form']}, expected {FORM}")
    names = [str(name) for name in about["names"]]

    def taken(name: str, *shape: int) -> NDArray[Any]:
        array: NDArray[Any] = arrays[name]
        return np.array(array.reshape(shape))

    ring = Ring(occasions)
    ring.at, ring.seconds = taken("at", SAMPLES), taken("seconds", SAMPLES)
    if ring.at[-1] > time.time():
        raise _OtherFormError("it is of a time to come: the clock was set back")
    ring.durations = taken("durations", SAMPLES, RANGES).astype(np.int64)
    ring.settled = [int(each) for each in about["settled"]]
    samples = taken("samples", len(names), SAMPLES)
    for name, known, values in zip(names, about["known"], samples, strict=True):
        ring.columns[name] = column = RingColumn(float(known))
        column.samples = np.array(values)
    for number, tier in enumerate(TIERS):
        ring.tier_durations[number] = taken(f"durations_{number}", tier.most, RANGES).astype(np.int64)
        stretches = taken(f"tier_{number}", len(names), 3, tier.most)
        for column, values in zip(ring.columns.values(), stretches, strict=True):
            column.tiers[number] = np.array(values)
    fields = (dict(zip(_OF_EVENT, each, strict=False)) for each in about["events"])
    return KeptHistory(ring, [supervisor_pb2.ProcessEvent(**each) for each in fields])
