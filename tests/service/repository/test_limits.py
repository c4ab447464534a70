"""The limit on loaded versions of models."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nnhal_service.repository import ControlMode, Repository, RepositoryOptions
from nnhal_service.serving.errors import ErrorKind, ServingError
from tests.support.repositories import StubModel, StubOpener, write

ALL = "version_policy { all {} }"
Start = Callable[..., Repository[StubModel]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a repository on the test's folder that may have three versions."""
    with ExitStack() as stack:

        def started(mode: ControlMode = ControlMode.EXPLICIT, **given: Any) -> Repository[StubModel]:
            options: dict[str, Any] = {"paths": (tmp_path,), "exit_on_error": False, "max_models": 3, **given}
            return stack.enter_context(Repository(RepositoryOptions(mode=mode, **options), StubOpener().open))

        yield started


def write_versions(repository: Path, name: str, *versions: int) -> None:
    write(repository, name, {"config.pbtxt": ALL, **{f"{v}/model.onnx": f"{name}{v}" for v in versions}})


def loaded(repository: Repository[StubModel]) -> list[str]:
    return [f"{row.name}{row.version}" for row in repository.index(ready=True)]


def refusal(repository: Repository[StubModel], name: str) -> str:
    with pytest.raises(ServingError) as caught:
        repository.load(name)
    assert caught.value.kind == ErrorKind.RESOURCE_EXHAUSTED
    return caught.value.message


def test_one_more_than_may_be_is_refused_and_what_serves_goes_on(tmp_path: Path, start: Start) -> None:
    write_versions(tmp_path, "a", 1, 2)
    write_versions(tmp_path, "b", 1)
    write_versions(tmp_path, "c", 1)
    repository = start()
    repository.load("a")
    repository.load("b")
    assert refusal(repository, "c") == (
        "failed to load 'c': it has 1 versions and other models have 3 loaded; all together may have 3, "
        "which --max-models allows"
    )
    assert loaded(repository) == ["a1", "a2", "b1"]
    with repository.model("a", "1") as lease:
        assert lease.model.content == b"a1"
        assert not lease.model.closed.is_set()
    repository.unload("b")
    repository.load("c")
    assert loaded(repository) == ["a1", "a2", "c1"]


def test_what_is_loaded_again_takes_no_more_room(tmp_path: Path, start: Start) -> None:
    write_versions(tmp_path, "a", 1, 2, 3)
    repository = start()
    for content in (b"first", b"second"):
        write(tmp_path, "a", {"1/model.onnx": content, "2/model.onnx": content, "3/model.onnx": content})
        repository.load("a")
        assert loaded(repository) == ["a1", "a2", "a3"]
        with repository.model("a", "1") as lease:
            assert lease.model.content == content
    write_versions(tmp_path, "a", 4)
    assert "it has 4 versions and other models have 0 loaded" in refusal(repository, "a")
    assert loaded(repository) == ["a1", "a2", "a3"]


def test_what_could_not_be_loaded_takes_no_room(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "broken", {"config.pbtxt": ALL, "1/model.onnx": b"broken", "2/model.onnx": b"2"})
    write_versions(tmp_path, "a", 1, 2, 3)
    repository = start()
    with pytest.raises(ServingError, match="broken"):
        repository.load("broken")
    repository.load("a")
    shutil.rmtree(tmp_path / "a" / "3")
    repository.load("a")
    write_versions(tmp_path, "b", 1)
    repository.load("b")
    assert loaded(repository) == ["a1", "a2", "b1"]


def test_too_many_at_the_start_do_not_end_the_server(tmp_path: Path, start: Start) -> None:
    for name in ("a", "b", "c", "d"):
        write_versions(tmp_path, name, 1)
    repository = start(ControlMode.NONE, exit_on_error=True)
    assert len(loaded(repository)) == 3
    assert not repository.ready


def test_in_mode_poll_it_is_loaded_once_there_is_room(tmp_path: Path, start: Start) -> None:
    write_versions(tmp_path, "a", 1, 2, 3)
    repository = start(ControlMode.POLL, poll_seconds=86400.0)
    write_versions(tmp_path, "b", 1)
    repository.poll()
    assert loaded(repository) == ["a1", "a2", "a3"]
    shutil.rmtree(tmp_path / "a")
    repository.poll()
    repository.poll()
    assert loaded(repository) == ["b1"]
