"""Names that commands had in the release before: they still work, and no help lists them."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = ("devices", "events", "runs", "recordings", "logs")
_DONE = ("start", "stop", "restart", "drain", "kill")
_OF_MODELS = ("load", "unload", "upload", "plan", "record")
_VERBS = {"--add": "add", "--remove": "remove", "--set-level": "log-level"}
"""Options of 'devices' and 'logs' that have become verbs."""


def present_words(words: Sequence[str]) -> list[str]:
    """Return a command as it is written now."""
    name, *rest = words or [""]
    if name in _DONE:
        return ["ctl", name, *rest]
    if name == "top":
        follow = [] if "--once" in rest else ["--follow"]
        return ["show", "rates", *follow, *(word for word in rest if word != "--once")]
    if name == "models":
        if rest and rest[0] in _OF_MODELS:
            return ["ctl", *rest]
        return ["show", "models", *(rest[1:] if rest[:1] == ["show"] else rest)]
    if name in _SHOWN:
        for number, word in enumerate(rest):
            option, has_value, value = word.partition("=")
            if option in _VERBS:
                values = [value] if has_value else rest[number + 1 : number + 2]
                others = [*rest[:number], *rest[number + 1 + len(values) - bool(has_value) :]]
                return ["ctl", _VERBS[option], *others, *values]
        return ["show", name, *rest]
    return list(words)
