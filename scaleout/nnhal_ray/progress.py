"""What a command waits for, and for how long, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from nnhal.errors import NnhalError
from nnhal.threads import BriefThread

_LOOK_SECONDS = 0.25
_LINE_SECONDS = 10.0
"""How often a wait is told where lines cannot be written over."""

Result = TypeVar("Result")


class TooLongError(NnhalError):
    """What was waited for has not come in time."""


class Progress:
    """Tells what is waited for: on a terminal in one line that changes, elsewhere in a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True, highlight=False)

    def say(self, line: str) -> None:
        """Write a line."""
        self._console.print(line, markup=False)

    def wait(self, what: str | Callable[[], str], is_over: Callable[[], bool], seconds: float) -> None:
        """Wait until something is over, and tell ``what`` is waited for.

        Raises TooLongError, and what ``is_over`` raises.
        """
        began = told_at = time.monotonic()
        told = ""
        with self._console.status("") as status:
            while not is_over():
                text, now = what if isinstance(what, str) else what(), time.monotonic()
                if now - began > seconds:
                    raise TooLongError(f"{text}: this has taken longer than {seconds:g} s")
                words = f"{text}, {now - began:.0f} s"
                if self._console.is_terminal:
                    status.update(words)
                elif text != told or now - told_at >= _LINE_SECONDS:
                    self.say(words if told else f"{text} …")
                    told, told_at = text, now
                time.sleep(_LOOK_SECONDS)
        self.say(f"{what if isinstance(what, str) else what()}: done after {time.monotonic() - began:.0f} s")

    def during(self, what: str, act: Callable[[], Result], seconds: float) -> Result:
        """Tell what is done while a call runs, and return its result. Raises TooLongError, and what the call raises."""
        results: list[Result] = []
        failures: list[BaseException] = []

        def run() -> None:
            try:
                results.append(act())
            except BaseException as error:  # raised again below
                failures.append(error)

        thread = BriefThread(run, "act")
        thread.start()
        self.wait(what, lambda: not thread.is_alive(), seconds)
        if failures:
            raise failures[0]
        return results[0]
