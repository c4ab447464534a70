"""The order in which several workers take the tests: what takes long first, so that they end at about the same time."""

from __future__ import annotations

import pytest

_FIRST = ("conformance", "system", "process")
"""Folders whose tests take long, and wait for processes while others compute."""


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests by file: first those of ``_FIRST``, then files with slow tests, then the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    return sorted(items, key=lambda item: (_rank(item.nodeid), item.path not in slow))


def _rank(nodeid: str) -> int:
    return next((rank for rank, folder in enumerate(_FIRST) if nodeid.startswith(f"tests/{folder}/")), len(_FIRST))
