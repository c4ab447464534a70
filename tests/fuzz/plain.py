"""The plain engine: inputs by number, the same on every machine. ``python -m tests.fuzz.plain TARGET FIRST SECONDS``

Input 17 of a target is made of its corpus with random numbers that only 17 decides. The number is in a file that
outlives the process, so that whoever started it knows which input a crash is due to.
"""

from __future__ import annotations

import faulthandler
import logging
import mmap
import os
import struct
import sys
import time
import traceback
from pathlib import Path
from random import Random

import structlog

from tests.fuzz.target import FuzzTarget
from tests.fuzz.targets import target

COUNTS = struct.Struct("<QQQ")
"""The number of the next input, how many inputs were read without a refusal, and the number of findings."""
MOST_FINDINGS = 20
_HANGING_SECONDS = 120


def input_of(found: FuzzTarget, corpus: list[bytes], number: int) -> bytes:
    source = Random(f"{found.name} {number}")
    return found.changed(source.choice(corpus), source)


def attempt_all(name: str, first: int, seconds: float, state: Path) -> int:
    """Try inputs from number ``first`` on for some seconds. Return the number of findings, which are kept as files."""
    found = target(name)
    corpus = list(found.corpus())
    for each in corpus:  # what is imported or made at the first use is no input's own
        found.warm_up(each)
    findings = taken = 0
    known: set[str] = set()
    with (state / "counts").open("w+b") as file:
        file.write(bytes(COUNTS.size))
        file.flush()
        with mmap.mmap(file.fileno(), COUNTS.size) as counts:
            end, number = time.monotonic() + seconds, first
            while time.monotonic() < end and findings < MOST_FINDINGS:
                COUNTS.pack_into(counts, 0, number, taken, findings)
                faulthandler.dump_traceback_later(_HANGING_SECONDS, exit=True)
                data = input_of(found, corpus, number)
                try:
                    taken += found.attempt(data)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    place = _place(error)
                    if place not in known:
                        known.add(place)
                        findings += 1
                        keep(state, f"{name}-{number}", data, "".join(traceback.format_exception(error)))
                number += 1
            faulthandler.cancel_dump_traceback_later()
            if found.finish is not None:
                try:
                    found.finish()
                except Exception as error:
                    findings += 1
                    keep(state, f"{name}-end-{number}", b"", "".join(traceback.format_exception(error)))
            COUNTS.pack_into(counts, 0, number, taken, findings)
    return findings


def keep(state: Path, name: str, data: bytes, words: str) -> None:
    """Keep an input that a reader did not take as it must, and say what it did."""
    (state / name).write_bytes(data)
    print(f"FINDING {state / name} ({len(data)} bytes)\n{words}", file=sys.stderr, flush=True)


def quiet() -> None:
    """Drop the log lines of the readers, and those of the processes that they start."""
    for process in ("DEVICE", "SERVICE"):
        os.environ[f"NNHAL_{process}_LOG_LEVEL"] = "error"
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _place(error: BaseException) -> str:
    """Return where an error was raised: findings of one place are kept once."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} {[(frame.filename, frame.lineno) for frame in frames[-3:]]}"


if __name__ == "__main__":
    quiet()
    _, name, first, seconds, state = sys.argv
    sys.exit(1 if attempt_all(name, int(first), float(seconds), Path(state)) else 0)
