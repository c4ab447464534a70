"""A target of the fuzzer: a reader of bytes from strangers, and what it may do with any bytes.

A reader may take its input, or raise one of its documented errors. Everything else is a finding: another exception, too
much processor time, too much memory, a message that shows the inside of the process, the end of the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random

from tests.support.plain_words import what_is_not_plain
from tests.support.resources import forget_peak, peak_bytes

CORPUS = Path(__file__).with_name("corpus")
"""A folder for each target, with inputs that once failed."""
MOST_INPUT_BYTES = 1 << 16
_MUTATIONS = (1, 1, 1, 2, 4)

Mutate = Callable[[bytes, Random], bytes]


@cache
def scratch_folder() -> Path:
    """A folder for the files and sockets of this process's targets, which goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="nnhal-fuzz-"))
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder


class FindingError(AssertionError):
    """A reader did with an input what no reader may do."""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """A reader, and inputs to begin with."""

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """The errors that the reader documents."""
    seeds: Callable[[], Iterable[bytes]]
    """Makes inputs that the reader takes."""
    mutate: Mutate
    """Returns an input that is a little different, in terms of its structure."""
    cpu_seconds: float = 2.0
    """The most processor time that an input may take; the machine may be busy, and slower than another."""
    memory_bytes: int = 128 << 20
    """The most memory that an input may take, beside what the process had before."""
    plain: bool = True
    """Whether strangers read its refusals, which therefore must be in words."""
    finish: Callable[[], None] | None = None
    """Checks and ends what the reader has started, if that is a live process."""

    def corpus(self) -> Sequence[bytes]:
        """The seeds, and the inputs that once failed."""
        kept = [path.read_bytes() for path in sorted((CORPUS / self.name).glob("*"))]
        return [*self.seeds(), *kept]

    def changed(self, data: bytes, source: Random) -> bytes:
        """Return an input after a few mutations."""
        for _ in range(source.choice(_MUTATIONS)):
            data = self.mutate(data, source)[:MOST_INPUT_BYTES]
        return data

    def warm_up(self, data: bytes) -> None:
        """Have the reader read without looking at what that takes."""
        with suppress(*self.refusals):
            self.read(data)

    def attempt(self, data: bytes) -> bool:
        """Have the reader read; return whether it took the input. Raises FindingError, and whatever else it does."""
        before, started = forget_peak(os.getpid()), time.process_time()
        try:
            self.read(data)
        except self.refusals as error:
            taken, words = False, str(error)
        else:
            taken, words = True, "taken"
        spent, grown = time.process_time() - started, peak_bytes(os.getpid()) - before
        if spent > self.cpu_seconds:
            raise FindingError(f"{spent:.1f} s of processor time for {len(data)} bytes, at most {self.cpu_seconds:g}")
        if grown > self.memory_bytes:
            raise FindingError(f"{grown >> 20} MiB for {len(data)} bytes, at most {self.memory_bytes >> 20}")
        wrong = what_is_not_plain(words) if self.plain else ""
        if wrong:
            raise FindingError(f"a refusal that is not in words: {wrong}; in {words[:300]!r}")
        return taken
