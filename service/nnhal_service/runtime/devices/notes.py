"""Notes of what happens: for those who want to know what happened lately, without reading logs."""

from __future__ import annotations

from collections.abc import Callable, Collection

Note = Callable[[str, str, str], None]
"""Takes the kind of an event (see ProcessEvent in supervisor.proto), the device or model that it is about, and a
sentence that says what happened. It returns at once and does not raise.
"""


def no_note(kind: str, subject: str, text: str) -> None:
    """Drop a note."""


def note_replanned(note: Note, model: str, without: Collection[str]) -> None:
    """Note that a model runs by another plan than before: ``without`` some devices, or its own if there are none."""
    if without:
        note("replanned", model, f"model {model} is planned again without {', '.join(sorted(without))}")
    else:
        note("replanned", model, f"model {model} runs by its own plan again")
