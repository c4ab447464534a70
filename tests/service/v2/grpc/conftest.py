"""A front that the tests of this folder call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.v2 import FakeModel
from tests.support.v2_front import Served, serving


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    with serving(short_path, FakeModel()) as front:
        yield front
