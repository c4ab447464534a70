"""Devices that each run one operation of ``three_steps``, and a loader of models over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.picky import Loader, Picky, serving
from tests.support.three_steps import one_device_each


@pytest.fixture
def devices() -> list[Picky]:
    return one_device_each()


@pytest.fixture
def load(short_path: Path, devices: list[Picky]) -> Iterator[Loader]:
    """Serve the devices, and return a loader of models over them."""
    with serving(short_path, *devices) as loader:
        yield loader
