"""Changes by operators to a repository that clients may not change, with models that need no device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal_service.repository import ControlMode, ModelIndex, ModelState, Opened, Repository, RepositoryOptions
from nnhal_service.repository.source import ModelSource
from nnhal_service.serving.errors import ErrorKind, ServingError
from tests.support.repositories import StubModel, StubOpener, write

READY, UNAVAILABLE = ModelState.READY, ModelState.UNAVAILABLE
Start = Callable[[ControlMode], Repository[StubModel]]
MODES = [ControlMode.NONE, ControlMode.EXPLICIT, ControlMode.POLL]


@pytest.fixture
def opener() -> StubOpener:
    return StubOpener()


@pytest.fixture
def start(tmp_path: Path, opener: StubOpener) -> Iterator[Start]:
    """Starts a repository with ``m``, of which versions 1 and 2 are loaded."""
    write(tmp_path, "m", {"config.pbtxt": "version_policy { all {} }", "1/model.onnx": b"m1", "2/model.onnx": b"m2"})
    with ExitStack() as stack:

        def started(mode: ControlMode) -> Repository[StubModel]:
            loads = ("*",) if mode is ControlMode.EXPLICIT else ()
            options = RepositoryOptions((tmp_path,), mode, loads, poll_seconds=86400.0, drain_seconds=0.0)
            return stack.enter_context(Repository(options, opener.open))

        yield started


def content(repository: Repository[StubModel], name: str, version: str = "") -> bytes:
    with repository.model(name, version) as lease:
        return lease.model.content


def again(opened: Opened[StubModel], _: ModelSource) -> Opened[StubModel]:
    return replace(opened, served=StubModel(opened.served.content + b" again"))


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_loads_and_unloads_in_every_mode(start: Start, tmp_path: Path, mode: ControlMode) -> None:
    repository = start(mode)
    repository.unload("m", by_operator=True)
    assert repository.versions("m") == []
    repository.load("m", by_operator=True)
    assert repository.versions("m") == ["1", "2"]
    repository.load("given", files={"1/model.onnx": b"given"}, by_operator=True)
    assert content(repository, "given") == b"given"
    repository.unload("given", by_operator=True)
    assert not repository.is_ready("given")


def test_what_an_operator_did_stays_until_files_change(start: Start, tmp_path: Path) -> None:
    repository = start(ControlMode.POLL)
    repository.load("given", files={"1/model.onnx": b"given"}, by_operator=True)
    repository.unload("m", by_operator=True)
    repository.poll()
    assert content(repository, "given") == b"given"
    assert not repository.is_ready("m")
    write(tmp_path, "m", {"3/model.onnx": b"m3"})
    write(tmp_path, "given", {"1/model.onnx": b"from a folder"})
    repository.poll()
    assert content(repository, "m") == b"m3"
    assert content(repository, "given") == b"from a folder"


def test_an_uploaded_model_that_is_unloaded_is_forgotten(start: Start) -> None:
    repository = start(ControlMode.POLL)
    repository.load("given", files={"1/model.onnx": b"given"}, by_operator=True)
    repository.unload("given", by_operator=True)
    repository.poll()
    assert repository.known("given") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("broken", [b"broken", b"crash"])
def test_an_upload_that_fails_leaves_no_trace(start: Start, mode: ControlMode, broken: bytes) -> None:
    repository = start(mode)
    repository.unload("m", by_operator=True)
    repository.load("m", by_operator=True)
    before = repository.index()
    for name in ("m", "new"):
        with pytest.raises(ServingError, match=f"failed to load '{name}'"):
            repository.load(name, files={"1/model.onnx": broken}, by_operator=True)
    assert repository.index() == before
    assert repository.ready
    repository.poll()
    assert repository.index() == before
    assert content(repository, "m") == b"m2"


def test_a_folder_that_an_operator_cannot_load_is_told_of(start: Start, tmp_path: Path) -> None:
    repository = start(ControlMode.NONE)
    write(tmp_path, "bad", {"1/model.onnx": b"broken"})
    with pytest.raises(ServingError):
        repository.load("bad", by_operator=True)
    reason = "failed to load 'bad', version 1: broken"
    assert repository.known("bad") == [ModelIndex("bad", "1", UNAVAILABLE, reason)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("version", "after"), [("", [b"m1", b"m2 again"]), ("1", [b"m1 again", b"m2"])])
def test_one_version_is_made_anew_before_the_old_one_is_closed(
    start: Start, opener: StubOpener, mode: ControlMode, version: str, after: list[bytes]
) -> None:
    repository = start(mode)
    old = list(opener.opened)
    closed_before: list[StubModel] = []

    def reopen(opened: Opened[StubModel], source: ModelSource) -> Opened[StubModel]:
        closed_before.extend(model for model in old if model.closed.is_set())
        assert source.read(f"{opened.version}/model.onnx") == opened.served.content
        return again(opened, source)

    repository.load_again("m", version, reopen)
    assert closed_before == []
    assert [model.content for model in old if model.closed.is_set()] == [b"m2" if version == "" else b"m1"]
    assert [content(repository, "m", number) for number in ("1", "2")] == after


def test_what_was_made_anew_stays_until_the_model_is_loaded(start: Start, tmp_path: Path) -> None:
    repository = start(ControlMode.POLL)
    repository.load_again("m", "", again)
    repository.poll()
    assert content(repository, "m") == b"m2 again"
    repository.load("m", by_operator=True)
    assert content(repository, "m") == b"m2"


def test_a_change_of_files_is_seen_although_the_model_was_made_anew_since(start: Start, tmp_path: Path) -> None:
    repository = start(ControlMode.POLL)
    write(tmp_path, "m", {"3/model.onnx": b"m3"})
    repository.load_again("m", "", again)
    repository.poll()
    assert content(repository, "m") == b"m3"


def test_an_uploaded_model_is_made_anew_without_its_files(start: Start) -> None:
    repository = start(ControlMode.NONE)
    repository.load("given", files={"1/model.onnx": b"given"}, by_operator=True)

    def reopen(opened: Opened[StubModel], source: ModelSource) -> Opened[StubModel]:
        assert source.versions() == []
        return again(opened, source)

    repository.load_again("given", "", reopen)
    assert content(repository, "given") == b"given again"


def test_nothing_changes_if_a_version_cannot_be_made_anew(start: Start, opener: StubOpener) -> None:
    repository = start(ControlMode.NONE)
    before = repository.index()

    def reopen(opened: Opened[StubModel], source: ModelSource) -> Opened[StubModel]:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, "no")

    with pytest.raises(ServingError, match="no"):
        repository.load_again("m", "", reopen)
    assert repository.index() == before
    assert repository.ready
    assert not any(model.closed.is_set() for model in opener.opened)


def test_only_what_serves_is_made_anew(start: Start) -> None:
    repository = start(ControlMode.NONE)
    with pytest.raises(ServingError, match="'unknown' is not found") as unknown:
        repository.load_again("unknown", "", again)
    assert unknown.value.kind == ErrorKind.NOT_FOUND
    repository.unload("m", by_operator=True)
    with pytest.raises(ServingError, match="'m' is not at ready state") as unloaded:
        repository.load_again("m", "", again)
    assert unloaded.value.kind == ErrorKind.UNAVAILABLE
