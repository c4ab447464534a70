"""Check that a message is in words: it shows nothing of the inside of a process."""

from __future__ import annotations

import re

_INTERNALS = {
    "the repr of an object": r"<[\w.]+(?: [\w.]+)* object at 0x|\bat 0x[0-9a-f]{6,}>",
    "the repr of a dataclass": r"\b[A-Z]\w*\((?:\w+=|\))",
    "the repr of an enumeration": r"<[A-Z]\w*\.[A-Z_0-9]+: |\b(?!onnx\.)[A-Z][a-z]\w*\.[A-Z][A-Z_0-9]+\b",
    "the repr of bytes": r"""(?<!['":])\bb(?:'|")""",
    "a type of Python": r"<class |\bNoneType\b|\bdtype\(|\bnumpy\.|\bnp\.\w|\bndarray\b",
    "an exception of Python": r"\b[A-Z]\w*(?:Error|Exception)\b|Traceback|Exception calling application"
    r"|maximum recursion|not subscriptable|has no attribute|object is not|must be (?:str|int|bytes|real number)"
    r"|positional argument|not supported between|codec can't|invalid literal for|out of bounds for|list index"
    r"|unhashable|Exceeds the limit \(\d+ digits\)",
    "a path of the host": r"(?<![\w.:/])/(?:tmp|home|root|proc|usr|var|work|opt)/\S",
    "a defect": r"the call failed; the log of the|failed; its log says why",
}
_PATTERNS = {what: re.compile(pattern) for what, pattern in _INTERNALS.items()}


def what_is_not_plain(message: str) -> str:
    """Say what a message shows that it must not; empty if it is in words."""
    if not message.strip():
        return "no words"
    for what, pattern in _PATTERNS.items():
        found = pattern.search(message)
        if found:
            return f"{what}: {found.group()!r}"
    return ""


def require_plain(message: str, cause: object = "") -> None:
    """Check that a message is in words. ``cause`` says what it answers."""
    wrong = what_is_not_plain(message)
    assert not wrong, f"{wrong}; in {message[:400]!r}; after {cause}"
