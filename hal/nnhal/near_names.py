"""The names that there are, for somebody who has given another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


def there_are(name: str, known: Collection[str]) -> str:
    """Return ``there are a, b; did you mean 'a'?``, without the question if no name is near."""
    return f"there are {', '.join(known) or 'none'}{did_you_mean(name, known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'a'?`` with the known name that is nearest, whatever its case; empty if none is near."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
