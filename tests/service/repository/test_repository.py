"""States and order of loads and unloads, with models that need no device."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from nnhal_service.repository import ControlMode, ModelIndex, ModelState, Repository, RepositoryOptions
from nnhal_service.repository import repository as repository_module
from nnhal_service.repository.source import GivenSource
from nnhal_service.serving.errors import ErrorKind, ServingError
from tests.support.repositories import StubModel, StubOpener, write
from tests.support.waiting import wait_until

READY, UNAVAILABLE = ModelState.READY, ModelState.UNAVAILABLE
Start = Callable[..., Repository[StubModel]]


@pytest.fixture
def opener() -> Iterator[StubOpener]:
    """Loads the models, and lets all loads that it holds proceed in the end."""
    stub = StubOpener()
    yield stub
    stub.go_on.set()


@pytest.fixture
def start(tmp_path: Path, opener: StubOpener) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(mode: ControlMode = ControlMode.EXPLICIT, **options: Any) -> Repository[StubModel]:
            options = {"paths": (tmp_path,), "exit_on_error": False, "drain_seconds": 30.0, **options}
            return stack.enter_context(Repository(RepositoryOptions(mode=mode, **options), opener.open))

        yield started


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Make calls of several clients at the same time."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


def rows(repository: Repository[StubModel]) -> list[tuple[str, str, ModelState]]:
    return [(row.name, row.version, row.state) for row in repository.index()]


def content(repository: Repository[StubModel], name: str, version: str = "") -> bytes:
    with repository.model(name, version) as lease:
        return lease.model.content


def kind_of(repository: Repository[StubModel], name: str, version: str = "") -> ErrorKind:
    with pytest.raises(ServingError) as caught:
        repository.model(name, version)
    return caught.value.kind


def test_mode_none_loads_all_at_the_start_and_lets_clients_change_nothing(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "a", {"1/model.onnx": b"a1", "2/model.onnx": b"a2"})
    write(tmp_path, "b", {"1/model.onnx": b"b1"})
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / ".git").mkdir()
    repository = start(ControlMode.NONE)
    assert rows(repository) == [("a", "2", READY), ("b", "1", READY)]
    assert content(repository, "a") == b"a2"
    for change in (repository.load, repository.unload):
        with pytest.raises(ServingError, match="explicit model load / unload is not allowed") as caught:
            change("a")
        assert caught.value.kind == ErrorKind.UNAVAILABLE


@pytest.mark.parametrize("mode", [ControlMode.NONE, ControlMode.POLL])
def test_models_that_wait_for_their_load_at_the_start_are_not_ready_and_not_unknown(
    tmp_path: Path, opener: StubOpener, threads: ThreadPoolExecutor, mode: ControlMode
) -> None:
    write(tmp_path, "a", {"1/model.onnx": b"hold"})
    write(tmp_path, "b", {"1/model.onnx": b"b1"})
    repository = Repository(RepositoryOptions((tmp_path,), mode=mode, load_threads=1), opener.open)
    assert kind_of(repository, "b") == ErrorKind.UNAVAILABLE
    starting = threads.submit(repository.start)
    assert opener.holding.wait(30)
    for name, version in (("a", ""), ("a", "1"), ("b", ""), ("b", "1")):
        assert kind_of(repository, name, version) == ErrorKind.UNAVAILABLE
    assert kind_of(repository, "c") == ErrorKind.NOT_FOUND
    opener.go_on.set()
    starting.result()
    assert content(repository, "b") == b"b1"
    assert kind_of(repository, "b", "2") == ErrorKind.NOT_FOUND
    repository.close()


def test_a_model_whose_load_waits_for_others_is_not_ready_and_not_unknown(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "a", {"1/model.onnx": b"hold"})
    write(tmp_path, "b", {"1/model.onnx": b"b1"})
    repository = start(load_threads=1)
    assert kind_of(repository, "b") == ErrorKind.NOT_FOUND
    loading = [threads.submit(repository.load, "a")]
    assert opener.holding.wait(30)
    loading.append(threads.submit(repository.load, "b"))
    wait_until(lambda: kind_of(repository, "b") == ErrorKind.UNAVAILABLE, "the load of b has begun")
    assert kind_of(repository, "b", "1") == ErrorKind.UNAVAILABLE
    opener.go_on.set()
    for load in loading:
        load.result()
    assert content(repository, "b", "1") == b"b1"


def test_mode_explicit_loads_what_is_named(tmp_path: Path, start: Start) -> None:
    for name in ("a", "b"):
        write(tmp_path, name, {"1/model.onnx": name.encode()})
    assert start(load_models=("b",)).index(ready=True) == [ModelIndex("b", "1", READY)]
    repository = start()
    assert repository.index() == [
        ModelIndex("a", "", UNAVAILABLE, "not loaded"),
        ModelIndex("b", "", UNAVAILABLE, "not loaded"),
    ]
    assert rows(start(load_models=("*",))) == [("a", "1", READY), ("b", "1", READY)]


def test_a_model_of_several_versions_serves_the_newest_unless_one_is_named(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "m", {"config.pbtxt": "version_policy { all {} }", "2/model.onnx": b"2", "10/model.onnx": b"10"})
    repository = start(ControlMode.NONE)
    assert repository.versions("m") == ["2", "10"]
    assert content(repository, "m") == b"10"
    assert content(repository, "m", "2") == b"2"
    assert repository.is_ready("m") and repository.is_ready("m", "2") and not repository.is_ready("m", "3")
    with pytest.raises(ServingError, match="'m' version 3 is not found") as caught:
        repository.model("m", "3")
    assert caught.value.kind == ErrorKind.NOT_FOUND
    with pytest.raises(ServingError, match="expected a positive number"):
        repository.model("m", "newest")


@pytest.mark.parametrize("name", ["nobody", "../m", "m/1", ""])
def test_a_model_that_is_not_known_is_not_found(tmp_path: Path, start: Start, name: str) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start(ControlMode.NONE)
    assert not repository.is_ready(name)
    with pytest.raises(ServingError, match=r"Request for unknown model: '.*' is not found") as caught:
        repository.model(name)
    assert caught.value.kind == ErrorKind.NOT_FOUND


def test_models_are_loaded_and_unloaded_on_request(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start()
    repository.load("m")
    assert content(repository, "m") == b"1"
    repository.unload("m", unload_dependents=True)
    assert opener.opened[0].closed.is_set()
    assert repository.index() == [ModelIndex("m", "1", UNAVAILABLE, "unloaded")]
    with pytest.raises(ServingError, match="'m' is not at ready state") as caught:
        repository.model("m")
    assert caught.value.kind == ErrorKind.UNAVAILABLE
    repository.unload("m")
    repository.load("m")
    assert content(repository, "m") == b"1"


@pytest.mark.parametrize("name", ["nobody", "..", "../m", "m\0"])
def test_what_is_in_no_repository_can_be_neither_loaded_nor_unloaded(tmp_path: Path, start: Start, name: str) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start(paths=(tmp_path / "m",), load_models=())
    for change in (repository.load, repository.unload):
        with pytest.raises(ServingError) as caught:
            change(name)
        expected = ErrorKind.NOT_FOUND if name == "nobody" else ErrorKind.INVALID_ARGUMENT
        assert caught.value.kind == expected
        assert str(tmp_path) not in caught.value.message
    assert [row.name for row in repository.index()] == ["1"]


def test_a_start_name_outside_the_repository_is_not_loaded(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "outside", {"1/model.onnx": b"1"})
    (tmp_path / "repository").mkdir()
    repository = start(paths=(tmp_path / "repository",), load_models=("../outside",))
    assert repository.index(ready=True) == []
    assert not repository.ready


def test_loading_again_loads_only_what_has_changed(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    write(tmp_path, "m", {"config.pbtxt": "version_policy { all {} }", "1/model.onnx": b"1", "2/model.onnx": b"2"})
    repository = start()
    repository.load("m")
    repository.load("m")
    assert len(opener.opened) == 2
    write(tmp_path, "m", {"2/model.onnx": b"two", "3/model.onnx": b"3"})
    repository.load("m")
    assert [model.content for model in opener.opened] == [b"1", b"2", b"two", b"3"]
    assert [model.closed.is_set() for model in opener.opened] == [False, True, False, False]
    assert content(repository, "m", "2") == b"two"


def test_a_configuration_of_the_request_goes_before_the_file(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1", "2/model.onnx": b"2"})
    repository = start()
    repository.load("m", config='{"version_policy": {"specific": {"versions": [1]}}, "metric_tags": {"a": "b"}}')
    assert repository.versions("m") == ["1"]
    with repository.model("m") as lease:
        assert lease.config.metric_tags["a"] == "b"
        assert (lease.name, lease.version) == ("m", "1")
    repository.load("m")
    assert repository.versions("m") == ["2"]


def test_files_of_the_request_go_before_the_folder(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start()
    repository.load("m", files={"file:7/model.onnx": b"given"})
    assert repository.versions("m") == ["7"]
    assert content(repository, "m") == b"given"
    repository.load("new", "{}", {"file:1/model.onnx": b"new"})
    assert content(repository, "new") == b"new"
    repository.unload("new")
    repository.load("m")
    assert content(repository, "m") == b"1"


def test_files_of_the_request_are_not_kept_once_they_are_loaded(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[weakref.ref[GivenSource]] = []

    class Watched(GivenSource):
        def __init__(self, files: Mapping[str, bytes]) -> None:
            super().__init__(files)
            sources.append(weakref.ref(self))

    monkeypatch.setattr(repository_module, "GivenSource", Watched)
    repository = start()
    repository.load("m", files={"file:1/model.onnx": b"given"})
    gc.collect()
    assert [source() for source in sources] == [None]
    assert repository.is_ready("m")


def test_a_load_that_fails_leaves_what_serves_and_says_why(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    write(tmp_path, "m", {"config.pbtxt": "version_policy { all {} }", "1/model.onnx": b"1"})
    repository = start()
    repository.load("m")
    write(tmp_path, "m", {"2/model.onnx": b"two", "3/model.onnx": b"broken"})
    reason = "failed to load 'm', version 3: broken"
    with pytest.raises(ServingError, match=reason):
        repository.load("m")
    assert content(repository, "m") == b"1"
    assert repository.index() == [
        ModelIndex("m", "1", READY, reason),
        ModelIndex("m", "2", UNAVAILABLE, reason),
        ModelIndex("m", "3", UNAVAILABLE, reason),
    ]
    assert [model.closed.is_set() for model in opener.opened] == [False, True]
    assert repository.ready
    write(tmp_path, "m", {"3/model.onnx": b"mended"})
    repository.load("m")
    assert rows(repository) == [("m", "1", READY), ("m", "2", READY), ("m", "3", READY)]
    assert repository.ready


def test_a_configuration_that_is_wrong_is_said_with_the_model_s_name(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "m", {"config.pbtxt": "no_such_field: 1", "1/model.onnx": b"1"})
    repository = start()
    with pytest.raises(ServingError, match=r"failed to load 'm': config\.pbtxt: 1:1"):
        repository.load("m")
    (row,) = repository.index()
    assert (row.version, row.state) == ("", UNAVAILABLE)
    assert "no_such_field" in row.reason


def test_a_bug_in_loading_is_an_internal_error_that_tells_nothing(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"crash"})
    repository = start()
    with capture_logs() as logs, pytest.raises(ServingError) as caught:
        repository.load("m")
    assert (caught.value.kind, caught.value.message) == (ErrorKind.INTERNAL, "failed to load 'm': internal error")
    assert [entry["event"] for entry in logs] == ["a model cannot be loaded"]
    assert rows(repository) == [("m", "1", UNAVAILABLE)]


def test_a_model_of_two_repositories_is_refused(tmp_path: Path, start: Start) -> None:
    for root in ("one", "two"):
        write(tmp_path / root, "m", {"1/model.onnx": b"1"})
        write(tmp_path / root, root, {"1/model.onnx": b"1"})
    repository = start(ControlMode.NONE, paths=(tmp_path / "one", tmp_path / "two"))
    assert rows(repository) == [("m", "", UNAVAILABLE), ("one", "1", READY), ("two", "1", READY)]
    assert "2 repositories have a model of this name" in repository.index()[0].reason


def test_a_failure_at_the_start_ends_it_if_the_options_say_so(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    write(tmp_path, "good", {"1/model.onnx": b"1"})
    write(tmp_path, "bad", {"1/model.onnx": b"broken"})
    with pytest.raises(ServingError, match="failed to load 'bad', version 1: broken"):
        start(ControlMode.NONE, exit_on_error=True)
    assert [model.closed.is_set() for model in opener.opened] == [True]
    assert not start(ControlMode.NONE).ready
    assert start(ControlMode.NONE, strict=False).ready


def test_a_failure_after_the_start_is_that_models_and_not_the_servers(tmp_path: Path, start: Start) -> None:
    write(tmp_path, "good", {"1/model.onnx": b"1"})
    repository = start(ControlMode.POLL, poll_seconds=3600)
    write(tmp_path, "good", {"1/model.onnx": b"broken"})
    write(tmp_path, "new", {"1/model.onnx": b"broken"})
    repository.poll()
    failed = "failed to load '{}', version 1: broken"
    assert [row.reason.startswith(failed.format(row.name)) for row in repository.index()] == [True, True]
    assert rows(repository) == [("good", "1", READY), ("new", "1", UNAVAILABLE)]
    assert repository.ready


def test_a_model_of_the_start_that_failed_is_awaited_until_it_serves_or_is_unloaded(
    tmp_path: Path, start: Start
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"broken"})
    repository = start(load_models=("m",))
    states = [repository.ready]
    repository.unload("m")
    states.append(repository.ready)
    write(tmp_path, "m", {"1/model.onnx": b"mended"})
    repository.load("m")
    assert [*states, repository.ready] == [False, True, True]


def test_requests_keep_a_model_until_they_have_ended(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start()
    repository.load("m")
    lease = repository.model("m")
    unloading = threads.submit(repository.unload, "m")
    wait_until(lambda: rows(repository) == [("m", "1", ModelState.UNLOADING)], "it is unloading")
    with pytest.raises(ServingError, match="is not at ready state"):
        repository.model("m")
    assert not opener.opened[0].closed.is_set()
    lease.release()
    lease.release()
    unloading.result(30)
    assert opener.opened[0].closed.is_set()
    assert rows(repository) == [("m", "1", UNAVAILABLE)]


def test_a_request_that_does_not_end_cannot_keep_a_model_for_ever(
    tmp_path: Path, start: Start, opener: StubOpener
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start(drain_seconds=0.0)
    repository.load("m")
    lease = repository.model("m")
    repository.unload("m")
    assert opener.opened[0].closed.is_set()
    lease.release()


def test_a_version_is_replaced_only_when_the_new_one_is_ready(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start()
    repository.load("m")
    write(tmp_path, "m", {"1/model.onnx": b"hold"})
    loading = threads.submit(repository.load, "m")
    assert opener.holding.wait(30)
    assert content(repository, "m") == b"1"
    assert rows(repository) == [("m", "1", READY)]
    with repository.model("m") as lease:
        opener.go_on.set()
        wait_until(lambda: content(repository, "m") == b"hold", "the new one serves")
        assert not opener.opened[0].closed.is_set()
        assert lease.model.content == b"1"
    loading.result(30)
    assert opener.opened[0].closed.is_set()


def test_a_slow_load_delays_only_calls_of_its_name(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "slow", {"1/model.onnx": b"hold"})
    write(tmp_path, "quick", {"1/model.onnx": b"1"})
    repository = start()
    loading = threads.submit(repository.load, "slow")
    assert opener.holding.wait(30)
    assert rows(repository) == [("quick", "", UNAVAILABLE), ("slow", "1", ModelState.LOADING)]
    unloading = threads.submit(repository.unload, "slow")
    repository.load("quick")
    assert content(repository, "quick") == b"1"
    assert not loading.done() and not unloading.done()
    opener.go_on.set()
    loading.result(30)
    unloading.result(30)
    assert rows(repository) == [("quick", "1", READY), ("slow", "1", UNAVAILABLE)]
    assert [model.closed.is_set() for model in opener.opened if model.content == b"hold"] == [True]


def test_two_loads_of_one_name_load_it_once(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"hold"})
    repository = start()
    first = threads.submit(repository.load, "m")
    assert opener.holding.wait(30)
    second = threads.submit(repository.load, "m")
    opener.go_on.set()
    first.result(30)
    second.result(30)
    assert len(opener.opened) == 1


def test_only_so_many_models_are_loaded_at_a_time(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    for number in range(6):
        write(tmp_path, f"m{number}", {"1/model.onnx": b"1"})
    lock, at_once, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def count() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        both.wait(30)
        with lock:
            at_once -= 1

    opener.while_opening = count
    assert len(start(ControlMode.NONE, load_threads=2).index(ready=True)) == 6
    assert most == 2


def test_loads_unloads_and_requests_in_any_order_leave_nothing_open(
    tmp_path: Path, start: Start, opener: StubOpener, threads: ThreadPoolExecutor
) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start()
    served = []

    def change(number: int) -> None:
        for turn in range(40):
            if number % 2:
                repository.load("m", config=f'{{"metric_tags": {{"turn": "{number}.{turn}"}}}}')
            else:
                repository.unload("m")

    def request() -> None:
        for _ in range(200):
            try:
                with repository.model("m") as lease:
                    served.append(lease.model.closed.is_set())
            except ServingError as error:
                assert error.kind in (ErrorKind.UNAVAILABLE, ErrorKind.NOT_FOUND)

    tasks = [threads.submit(change, number) for number in range(4)] + [threads.submit(request) for _ in range(4)]
    for task in tasks:
        task.result(60)
    repository.load("m")
    assert content(repository, "m") == b"1"
    repository.unload("m")
    assert not any(served)
    assert all(model.closed.is_set() for model in opener.opened)


def test_closing_unloads_all_and_loads_no_more(tmp_path: Path, start: Start, opener: StubOpener) -> None:
    write(tmp_path, "m", {"1/model.onnx": b"1"})
    repository = start(load_models=("m",))
    repository.close()
    assert not repository.ready
    assert opener.opened[0].closed.is_set()
    with pytest.raises(ServingError, match="the server is stopping"):
        repository.load("m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load_models": ("m",)}, "expected control mode explicit, got none"),
        ({"mode": ControlMode.EXPLICIT, "load_models": ("m", "*")}, r"expected names, or '\*' alone"),
        ({"poll_seconds": 0}, "poll_seconds 0"),
        ({"load_threads": 0}, "load_threads 0"),
        ({"paths": (Path("/no/such/folder"),)}, "model repository /no/such/folder: expected a folder"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RepositoryOptions(**options)
