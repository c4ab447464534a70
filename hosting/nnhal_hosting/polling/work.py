"""What a call on a channel leaves to do."""

from __future__ import annotations

from typing import Protocol


class Work(Protocol):
    """What an exchange leaves to do."""

    @property
    def is_brief(self) -> bool:
        """Whether it waits for nothing, and takes less time than waking another thread."""
        ...

    def run(self) -> None:
        """Do the work. If it raises, its channel ends."""
        ...
