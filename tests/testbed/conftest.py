"""The containers that ``make testbed`` has started."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed.bed import ContainerBed, bed_of
from tests.testbed.compose import PROJECT_VARIABLE, ComposeProject


@pytest.fixture(scope="session")
def started_bed() -> Iterator[ContainerBed]:
    name = os.environ.get(PROJECT_VARIABLE)
    if not name:
        pytest.skip(f"{PROJECT_VARIABLE} names no running containers: 'make testbed' starts some")
    with bed_of(ComposeProject(name)) as started:
        yield started


@pytest.fixture
def bed(started_bed: ContainerBed) -> ContainerBed:
    """Return the containers, all of which serve: what a test before has broken is back."""
    started_bed.wait_until_whole()
    return started_bed
