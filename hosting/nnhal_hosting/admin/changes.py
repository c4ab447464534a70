"""Changes by operators, as processes keep them."""

from __future__ import annotations

from nnhal.v1 import supervisor_pb2 as wire
from nnhal_hosting.link_server import Session

_MOST_CHARACTERS = 500
_MOST_UNDOING = 8000
"""Characters of what undoes a change, with the pins of a plan."""


def completed_change(change: wire.ProcessEvent, session: Session) -> wire.ProcessEvent:
    """Return the event of a change, with the program, the process and the user whose call told of it."""
    caller = f"{session.title}, user {session.uid}"
    return wire.ProcessEvent(
        kind="changed",
        subject=change.subject[:_MOST_CHARACTERS],
        text=change.text[:_MOST_CHARACTERS],
        who="; ".join(filter(None, (change.who[:_MOST_CHARACTERS], caller))),
        before=change.before[:_MOST_CHARACTERS],
        undo=change.undo if len(change.undo) <= _MOST_UNDOING else "",
    )
