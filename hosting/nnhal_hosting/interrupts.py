"""Ctrl-C while a command runs, and before a process serves: one line, and the exit status that shells have for it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 128 + signal.SIGINT
"""The exit status."""
_STDERR = 2
_SHOW_CURSOR = "\x1b[?25h"


def end_at_interrupt(program: str) -> None:
    """Have SIGINT end this process at once, until something else handles it. Ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: _end(program))


@contextmanager
def interruptible(program: str) -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt; if a command does not handle that, say so in a line and end the process.

    A second one ends the process at once. What the command has started ends with it (``nnhal_hosting.supervision``).
    """
    interrupts = 0

    def interrupt(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            _end(program)
        raise KeyboardInterrupt

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:  # raised in what nobody awaits: the command would go on
            _end(program)
        sys.__unraisablehook__(unraisable)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = report
    try:
        yield
    except KeyboardInterrupt:
        _announce(program)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _announce(program)
        raise
    except Exception:
        if not interrupts:
            raise
        _announce(program)  # a library has made something else of it
        sys.exit(INTERRUPTED)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in this thread, for a process that is started meanwhile: until it decides what to do with that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(program: str) -> None:
    _announce(program)
    os._exit(INTERRUPTED)


def _announce(program: str) -> None:
    shown = _SHOW_CURSOR if os.isatty(_STDERR) else ""  # a spinner may have hidden it
    os.write(_STDERR, f"{shown}{program}: interrupted\n".encode())
