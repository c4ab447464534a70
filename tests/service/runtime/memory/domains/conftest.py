"""Fixtures of the tests of memory domains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from tests.service.memory_bench import Bench, Start


@pytest.fixture
def start(cpu_ref: Endpoint, short_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:
        yield partial(Bench, short_path, cpu_ref, stack)
