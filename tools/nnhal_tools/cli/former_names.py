"""Names that commands had in version 0.1.0: they still work in the next one, and no help lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_FORMER: Mapping[str, tuple[str, ...]] = {
    **{f"ps --{name}": ("show", name) for name in ("sessions", "pools", "buffers", "executions", "fences", "models")},
    **{name: ("show", name) for name in ("devices", "events", "runs", "recordings", "logs", "models")},
    **{name: ("ctl", name) for name in ("start", "stop", "restart", "drain", "kill")},
    **{f"models {name}": ("ctl", name) for name in ("load", "unload", "upload", "plan", "record")},
    "models show": ("show", "models"),
    "top": ("show", "rates", "--follow"),
    "top --once": ("show", "rates"),
    "devices --add": ("ctl", "add"),
    "devices --remove": ("ctl", "remove"),
    "logs --set-level": ("ctl", "log-level"),
}
"""What is written now, by a former command and the word that decides which one it is."""


def present_words(words: Sequence[str]) -> list[str]:
    """Return a command as it is written now. The value of an option that has become a verb is its last word."""
    name, *rest = words or [""]
    for number, word in enumerate(rest):
        option, _, value = word.partition("=")
        present = _FORMER.get(f"{name} {option}") if number == 0 or word.startswith("--") else None
        if present is not None:
            others = [*rest[:number], *rest[number + 1 :]]
            if option.startswith("--") and present[0] == "ctl":
                others.append(value or "".join(others[number : number + 1]))
                del others[number : number + (not value)]
            return [*present, *others]
    return [*_FORMER.get(name, (name,)), *rest] if words else []
