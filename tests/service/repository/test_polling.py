"""Mode POLL: changed models are loaded. Each test polls itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from nnhal_service.repository import ControlMode, ModelState, Repository, RepositoryOptions
from nnhal_service.serving.errors import ServingError
from tests.support.repositories import StubModel, StubOpener, write
from tests.support.waiting import wait_until

READY, UNLOADING, UNAVAILABLE = ModelState.READY, ModelState.UNLOADING, ModelState.UNAVAILABLE
Polled = Callable[..., Repository[StubModel]]


@pytest.fixture
def opener() -> StubOpener:
    return StubOpener()


@pytest.fixture
def polled(tmp_path: Path, opener: StubOpener) -> Iterator[Polled]:
    """Starts a repository that polls once a day, unless told otherwise."""
    with ExitStack() as stack:

        def started(poll_seconds: float = 86400.0) -> Repository[StubModel]:
            options = RepositoryOptions((tmp_path,), ControlMode.POLL, poll_seconds=poll_seconds, exit_on_error=False)
            return stack.enter_context(Repository(options, opener.open))

        yield started


def rows(repository: Repository[StubModel]) -> list[tuple[str, str, ModelState]]:
    return [(row.name, row.version, row.state) for row in repository.index()]


def test_models_that_come_are_loaded_and_those_that_go_unloaded(
    tmp_path: Path, polled: Polled, opener: StubOpener
) -> None:
    repository = polled()
    assert repository.index() == []
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository.poll()
    assert rows(repository) == [("m", "1", READY)]
    shutil.rmtree(tmp_path / "m")
    repository.poll()
    assert repository.index() == []
    assert opener.opened[0].closed.is_set()
    assert repository.ready


def test_whoever_wants_to_know_is_told_of_the_model_that_has_changed_and_of_no_other(
    tmp_path: Path, opener: StubOpener
) -> None:
    told: list[tuple[str, list[ModelState]]] = []

    def tell(name: str) -> None:
        told.append((name, [row.state for row in repository.known(name)]))

    options = RepositoryOptions((tmp_path,), ControlMode.POLL, poll_seconds=86400.0)
    repository = Repository(options, opener.open, tell)
    write(tmp_path, "other", {"1/model.onnx": b"1"})
    with repository:
        assert told[-1] == ("other", [READY])
        told.clear()
        write(tmp_path, "m", {"1/model.onnx": b"1"})
        assert repository.known("m") == []
        repository.poll()
        shutil.rmtree(tmp_path / "m")
        repository.poll()
        states = [("m", [READY]), ("m", [UNLOADING]), ("m", [UNAVAILABLE]), ("m", [])]
        assert [state for state, _ in groupby(told)] == states


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path, polled: Polled, opener: StubOpener) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = polled()
    write(tmp_path, "m", {"2/model.onnx": b"2"})
    with repository.model("m") as lease:
        assert lease.version == "1"
    repository.poll()
    assert repository.versions("m") == ["2"]
    assert rows(repository) == [("m", "1", UNAVAILABLE), ("m", "2", READY)]
    assert [model.closed.is_set() for model in opener.opened] == [True, False]


def test_what_has_not_changed_is_left_alone(tmp_path: Path, polled: Polled, opener: StubOpener) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    write(tmp_path, "broken", {"1/model.onnx": b"broken"})
    repository = polled()
    opener.while_opening = lambda: pytest.fail("it is loaded again")
    repository.poll()
    assert rows(repository) == [("broken", "1", UNAVAILABLE), ("m", "1", READY)]


def test_a_change_that_fails_keeps_the_old_one_until_it_is_mended(tmp_path: Path, polled: Polled) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = polled()
    write(tmp_path, "m", {"1/model.onnx": b"broken"})
    repository.poll()
    with repository.model("m") as lease:
        assert lease.model.content == b"1"
    assert "broken" in repository.index()[0].reason
    assert repository.ready
    write(tmp_path, "m", {"1/model.onnx": b"mended now"})
    repository.poll()
    with repository.model("m") as lease:
        assert lease.model.content == b"mended now"
    assert repository.index()[0].reason == ""
    assert repository.ready


def test_a_change_in_a_folder_below_a_version_counts(tmp_path: Path, polled: Polled, opener: StubOpener) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1", "1/weights/deep/w.bin": b"1"})
    (tmp_path / "m/1/weights/deep/circle").symlink_to(tmp_path / "m/1/weights")
    repository = polled()
    loads: list[None] = []
    opener.while_opening = lambda: loads.append(None)
    repository.poll()
    assert not loads
    write(tmp_path, "m", {"1/weights/deep/w.bin": b"another"})
    repository.poll()
    assert len(loads) == 1


def test_a_change_of_the_configuration_alone_counts(tmp_path: Path, polled: Polled) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1", "2/model.onnx": b"2"})
    repository = polled()
    write(tmp_path, "m", {"config.pbtxt": "version_policy { all {} }"})
    repository.poll()
    assert repository.versions("m") == ["1", "2"]


def test_it_looks_by_itself(tmp_path: Path, polled: Polled) -> None:
    repository = polled(poll_seconds=0.01)
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    wait_until(lambda: repository.is_ready("m"), "it is loaded")


def test_a_repository_that_is_gone_may_come_back(tmp_path: Path, polled: Polled) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = polled(poll_seconds=0.01)
    away = tmp_path.with_name("away")
    tmp_path.rename(away)
    with pytest.raises(ServingError, match="a model repository cannot be read: No such file or directory"):
        repository.poll()
    assert rows(repository) == [("m", "1", READY)]
    write(away, "n", {"1/model.onnx": b"1"})
    away.rename(tmp_path)
    wait_until(lambda: repository.is_ready("n"), "it looks again")
