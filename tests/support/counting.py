"""Objects of a process, which it counts itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

_COUNTED = Path(__file__).parent / "counted"
_FOLDER = "NNHAL_TEST_COUNTS"


@dataclass(frozen=True)
class Counted:
    """What a process holds after a garbage collection."""

    blocks: int
    """Pieces of memory of Python's own allocator: an object has one, and a container one more."""
    kinds: Mapping[str, int]
    """Objects that can be in reference cycles, by their type."""


@contextmanager
def counting(folder: Path) -> Iterator[None]:
    """A context in which processes that are started can be counted. ``folder`` is for their counts."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", _FOLDER)}
    paths = [str(_COUNTED), *filter(None, [before["PYTHONPATH"]])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), _FOLDER: str(folder)})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def counted(pid: int, folder: Path) -> Counted:
    """Have a process collect its garbage, and count what it holds then."""
    told = folder / str(pid)
    told.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    wait_until(told.exists, f"process {pid} has counted")
    return Counted(**json.loads(told.read_text()))
