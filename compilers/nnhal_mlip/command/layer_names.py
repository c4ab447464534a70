"""Words for layers, and for how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def layer_title(user_names: Sequence[str], otherwise: str) -> str:
    """Return the user's names of a layer; ``otherwise`` if a pass has added it."""
    return " + ".join(user_names) or otherwise


def counted(words: Iterable[str]) -> str:
    """Return the words with the number of their occurrences, unless that is 1: ``20 Conv2D, Maxpool2D``."""
    counts = Counter(words)
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts.items())


def some(count: int, word: str, several: str = "") -> str:
    """Return a number with its word: ``1 layer``, ``2 binaries``. ``several`` is the plural unless an s makes it."""
    return f"{count} {word if count == 1 else several or word + 's'}"
