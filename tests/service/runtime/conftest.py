"""Devices that each run one operation of ``three_steps``, and a loader of models over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.three_steps import one_device_each
from tests.support.picky import Loader, Picky, serving


@pytest.fixture(params=["wired", "chained", "in turn", "in the engine"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select how the steps of a plan are run."""
    return _select(str(request.param), monkeypatch)


@pytest.fixture(params=["wired", "chained"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select how the steps of a plan are run without the framework in between."""
    return _select(str(request.param), monkeypatch)


def _select(runner: str, monkeypatch: pytest.MonkeyPatch) -> str:
    bound_plan = "nnhal_service.runtime.run.bound_plan"
    if runner != "wired":
        monkeypatch.setattr(f"{bound_plan}.Bells.are_allowed", False)
    if runner == "in turn":
        monkeypatch.setattr(f"{bound_plan}.MAX_FENCES", -1)
    if runner == "in the engine":
        monkeypatch.setattr(f"{bound_plan}.BoundPlan._is_static", lambda _: False)
    return runner


@pytest.fixture
def devices() -> list[Picky]:
    return one_device_each()


@pytest.fixture
def load(short_path: Path, devices: list[Picky]) -> Iterator[Loader]:
    with serving(short_path, *devices) as loader:
        yield loader
