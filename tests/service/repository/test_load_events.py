"""Notes of models that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_service.repository import Repository, RepositoryOptions
from nnhal_service.repository.load_events import ModelNotes
from nnhal_service.repository.options import ControlMode
from nnhal_service.serving import ServingError
from tests.support.repositories import StubModel, StubOpener, write

Noted = list[tuple[str, str, str]]


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[tuple[Repository[StubModel], Noted]]:
    notes: Noted = []
    options = RepositoryOptions((tmp_path,), ControlMode.EXPLICIT)
    repository = Repository(options, StubOpener().open, lambda name: watching.look(name))
    watching = ModelNotes(repository, lambda *note: notes.append(note))
    with repository:
        yield repository, notes


def test_loads_and_unloads_are_noted(tmp_path: Path, noted: tuple[Repository[StubModel], Noted]) -> None:
    repository, notes = noted
    write(tmp_path, "m", {"1/model.onnx": "one"})
    repository.load("m")
    write(tmp_path, "m", {"1/model.onnx": "other words"})
    repository.load("m")
    repository.unload("m")
    assert notes == [
        ("loaded", "m", "model m is loaded, version 1"),
        ("loaded", "m", "model m is loaded, version 1"),
        ("unloaded", "m", "model m is unloaded"),
    ]


def test_a_failure_is_noted_with_its_reason_also_while_the_model_serves(
    tmp_path: Path, noted: tuple[Repository[StubModel], Noted]
) -> None:
    repository, notes = noted
    write(tmp_path, "m", {"1/model.onnx": "one"})
    repository.load("m")
    write(tmp_path, "m", {"1/model.onnx": "broken"})
    with pytest.raises(ServingError):
        repository.load("m")
    assert notes[1:] == [("failed", "m", "model m cannot be loaded: failed to load 'm', version 1: broken")]
    repository.unload("m")
    assert notes[2:] == [("unloaded", "m", "model m is unloaded")]
