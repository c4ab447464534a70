"""The library in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def library(libraries: Path) -> Iterator[None]:
    """Find the library that was built for the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_NATIVE_LIBRARIES", str(libraries))
        yield
