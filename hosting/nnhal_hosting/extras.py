"""The extras of nnhal's distribution: which packages a program needs, and what to say if they are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A program's packages are not installed. The message says what to do."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import modules that need an extra. Raises MissingExtraError if a package of others is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("nnhal"):
            raise
        raise MissingExtraError(f"the module {error.name} is missing: pip install 'nnhal[{name}]'") from error
