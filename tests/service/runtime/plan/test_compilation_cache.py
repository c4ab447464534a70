"""The tokens and files of cached compilations, and the calls to devices."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import (
    ErrorStatus,
    ExecutionPreference,
    Model,
    NumberOfCacheFiles,
    Operand,
    OperandType,
    OperationType,
    Priority,
    TokenValuePair,
)
from nnhal.v1 import backend_pb2, device_pb2, types_pb2
from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Options, Pin, Step, interpret
from nnhal_service.runtime import CacheDirectory, Fleet, PreparedPlan, prepare
from nnhal_service.runtime.plan.compilation_cache import PrepareConfig, file_names, open_entry, token_of
from tests.service.planning import chain_of, device, split
from tests.support.models import Recipe
from tests.support.refusals import refusal
from tests.support.scripted import LAUNCHED, VERSION, Call, Script, ScriptedDevice, notified, preparing, refuse
from tests.support.subgraphs import B8, I32, Program

TOKEN = bytes(range(32))
OTHER_TOKEN = bytes(range(1, 33))
CONFIG = PrepareConfig(hints=(TokenValuePair(65536, b"a"), TokenValuePair(65537, b"b")))
OPTIMIZE = "Backend.OptimizeSubgraph"
PREPARE, RESTORE = "Device.PrepareModelWithConfig", "Device.PrepareModelFromCache"


def steps_of(model: Model, devices: Sequence[str]) -> tuple[Step, ...]:
    return split(model, devices, [operand.dimensions for operand in model.main.operands]).steps


PARTS = {"a whole model": None, "one step of several": steps_of(chain_of(2), "ab")[0]}


@dataclass(frozen=True)
class Compilation:
    """Everything that determines a token."""

    part: Step | None
    application: bytes = TOKEN
    device: str = "d"
    version: str = "v"
    config: PrepareConfig = CONFIG
    relaxed: bool = False

    @property
    def token(self) -> bytes:
        return token_of(self.application, self.device, self.version, self.config, self.part, self.relaxed)


@pytest.fixture(params=PARTS)
def compilation(request: pytest.FixtureRequest) -> Compilation:
    """Return a compilation of a whole model, and of one step of several."""
    return Compilation(PARTS[request.param])


def assert_all_differ(compilations: Sequence[Compilation]) -> None:
    tokens = {each.token for each in compilations}
    assert len(tokens) == len(compilations)
    assert {len(token) for token in tokens} == {32}


@pytest.mark.contract("RC-02", "RC-07")
def test_devices_of_two_names_get_different_tokens(compilation: Compilation) -> None:
    assert_all_differ([compilation, replace(compilation, device="e")])


@pytest.mark.contract("RC-03", "RC-07")
def test_devices_of_two_versions_get_different_tokens(compilation: Compilation) -> None:
    assert_all_differ([compilation, replace(compilation, version="w")])


def test_moving_characters_between_name_and_version_changes_the_token() -> None:
    assert_all_differ([Compilation(None, device="ab", version="c"), Compilation(None, device="a", version="bc")])


@pytest.mark.contract("RC-04", "RC-07")
def test_each_preference_gives_another_token(compilation: Compilation) -> None:
    configs = [replace(CONFIG, preference=preference) for preference in ExecutionPreference]
    assert_all_differ([replace(compilation, config=config) for config in configs])


@pytest.mark.contract("RC-05", "RC-07")
def test_each_priority_gives_another_token(compilation: Compilation) -> None:
    configs = [replace(CONFIG, priority=priority) for priority in Priority]
    assert_all_differ([replace(compilation, config=config) for config in configs])


@pytest.mark.contract("RC-06", "RC-07")
def test_each_token_of_the_application_gives_another_one(compilation: Compilation) -> None:
    assert_all_differ([compilation, replace(compilation, application=OTHER_TOKEN)])


def test_relaxed_computation_changes_the_token(compilation: Compilation) -> None:
    assert_all_differ([compilation, replace(compilation, relaxed=True)])


def test_hints_change_the_token_but_their_order_does_not(compilation: Compilation) -> None:
    first, second = CONFIG.hints
    moved = (replace(first, token=second.token), replace(second, token=first.token))
    hints = [(), (first,), (second,), CONFIG.hints, moved, (replace(first, value=b"ab"),)]
    assert_all_differ([replace(compilation, config=replace(CONFIG, hints=each)) for each in hints])
    turned = replace(CONFIG, hints=(second, first))
    assert replace(compilation, config=turned).token == compilation.token


@pytest.mark.contract("RC-08")
def test_two_partitions_of_one_model_on_one_device_get_different_tokens() -> None:
    model = chain_of(3)
    plans = [steps_of(model, devices) for devices in ("aab", "abb", "aba")]
    parts = {step.operations: step for steps in plans for step in steps if step.device == "a"}
    assert sorted(parts) == [(0,), (0, 1), (2,)]
    assert_all_differ([Compilation(None), *(Compilation(part) for part in parts.values())])


@pytest.mark.contract("RC-09")
def test_the_same_operations_inside_then_and_else_get_different_tokens() -> None:
    program = Program()
    main, *cases = (program.graph() for _ in range(3))
    for graph in cases:
        graph.returns(graph.add(graph.input(), graph.input()))
    inputs = [main.input(code=B8), *(main.reference(graph) for graph in cases), main.input(), main.input()]
    main.returns(main.operation(OperationType.IF, inputs, Operand(I32, (1,))))
    model = program.model()
    npu = replace(device("npu", ratio=0.5), refusals={0: "no"}, referenced=({}, {}))
    cpu = replace(device("cpu_ref"), referenced=({}, {}))
    dimensions = [[operand.dimensions for operand in graph.operands] for graph in (model.main, *model.referenced)]
    steps = [step for step in interpret(model, [()], [npu, cpu], dimensions).steps if isinstance(step, Step)]
    assert [(step.device, step.operations) for step in steps] == [("npu", (0,))] * 2
    assert_all_differ([Compilation(step) for step in steps])


@pytest.mark.contract("RC-10")
def test_equal_compilations_have_equal_tokens(compilation: Compilation) -> None:
    assert {replace(compilation).token for _ in range(10)} == {compilation.token}


def test_a_file_is_named_after_token_kind_and_index() -> None:
    names = file_names(bytes([0x01, 0xAF, *bytes(30)]), "2", 11)
    assert names[0] == "BAPK" + 60 * "A" + "20"
    assert names[10] == "BAPK" + 60 * "A" + "210"


def test_only_the_owner_can_access_files_and_their_directory(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    _, is_complete = open_entry(directory, TOKEN, NumberOfCacheFiles(1, 2))
    assert not is_complete
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert files == dict.fromkeys([*file_names(TOKEN, "1", 1), *file_names(TOKEN, "2", 2)], 0o600)


def test_an_entry_is_complete_once_a_device_has_written_to_it(tmp_path: Path) -> None:
    for _ in range(2):
        assert not open_entry(tmp_path, TOKEN, NumberOfCacheFiles(1, 1))[1]
    (tmp_path / file_names(TOKEN, "2", 1)[0]).write_bytes(b"constants")
    assert open_entry(tmp_path, TOKEN, NumberOfCacheFiles(1, 1))[1]


def test_a_file_that_has_another_name_is_made_anew_and_the_other_is_left_as_it_is(tmp_path: Path) -> None:
    cache, letter = tmp_path / "cache", tmp_path / "letter"
    letter.write_bytes(b"dear")
    cache.mkdir(mode=0o700)
    (cache / file_names(TOKEN, "1", 1)[0]).hardlink_to(letter)
    entry, is_complete = open_entry(cache, TOKEN, NumberOfCacheFiles(1, 1))
    assert not is_complete
    os.write(entry.model[0].fileno(), b"compiled")
    assert letter.read_bytes() == b"dear"


def test_a_directory_that_others_may_write_to_keeps_no_compilations(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(PermissionError, match="cache: mode 0777 lets others write there"):
        open_entry(tmp_path / "cache", TOKEN, NumberOfCacheFiles(1, 1))
    assert list((tmp_path / "cache").iterdir()) == []


def needing(model: int, data: int) -> Script:
    """Return the script of a device that needs the given numbers of cache files."""
    counts = types_pb2.NumberOfCacheFiles(num_model_cache=model, num_data_cache=data)
    answer = device_pb2.GetNumberOfCacheFilesNeededResponse(number_of_cache_files=counts)
    return {"Device.GetNumberOfCacheFilesNeeded": answer}


def supports_all(request: Any, call: Call) -> backend_pb2.AssessModelResponse:
    operations = [backend_pb2.OperationSupport(supported=True) for _ in request.model.main.operations]
    return backend_pb2.AssessModelResponse(operations=operations)


SUPPORTING: Script = {
    "Backend.Describe": None,
    "Backend.AssessModel": supports_all,
    "Backend.OptimizeSubgraph": None,
}


class Testbed:
    """A fleet of scripted devices, on which a test loads a model."""

    __test__ = False

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.cache = directory / "cache"
        self.writes = True
        self._directory = directory
        self._stack = stack

    def devices(self, *scripts: Script) -> list[ScriptedDevice]:
        """Serve devices d0, d1, …"""
        endpoints = {f"d{number}": Endpoint(self._directory / f"d{number}") for number in range(len(scripts))}
        self.fleet = Fleet(endpoints)
        self._stack.callback(self.fleet.close)
        return [
            self._stack.enter_context(ScriptedDevice(endpoint, {**SUPPORTING, **script}))
            for endpoint, script in zip(endpoints.values(), scripts, strict=True)
        ]

    def load(self, token: bytes = TOKEN, split: bool = False) -> PreparedPlan:
        """Prepare the model, in one step or with each operation on a different device, and release it."""
        pins = (Pin("op:ADD", "d0"), Pin("op:MUL", "d1")) if split else ()
        cache = CacheDirectory(self.cache, token) if token else None
        prepared = prepare(two_operations(), self.fleet, (), Options(pins=pins), cache)
        assert len(prepared.plan.steps) == (2 if split else 1)
        prepared.release()
        if self.writes and self.cache.is_dir():
            for file in self.files:  # scripted devices leave them as they are
                file.write_bytes(b"compiled")
        return prepared

    @property
    def files(self) -> list[Path]:
        return sorted(self.cache.iterdir()) if self.cache.exists() else []


@pytest.fixture
def testbed(short_path: Path) -> Iterator[Testbed]:
    with ExitStack() as stack:
        yield Testbed(short_path, stack)


def two_operations() -> ImportedModel:
    """Return the model ``(x + x) * x``."""
    recipe = Recipe()
    x = recipe.input(OperandType.TENSOR_FLOAT32, (4,))
    (none,) = recipe.integers(0)
    value = x
    for code in (OperationType.ADD, OperationType.MUL):
        value = recipe.operation(code, [value, x, none], Operand(OperandType.TENSOR_FLOAT32, (4,)))
    model = recipe.build(value).model
    return ImportedModel(model, (), (), (("add",), ("mul",)), (), ("",) * len(model.main.operands))


def caches(requests: Sequence[device_pb2.PrepareModelWithConfigRequest]) -> list[tuple[int, int, bytes]]:
    """Return how many files of each kind devices were given, and with which tokens."""
    configs = [request.config for request in requests]
    return [(len(config.model_cache), len(config.data_cache), config.cache_token) for config in configs]


NO_CACHE = (0, 0, bytes(32))


@pytest.mark.contract("RC-01")
@pytest.mark.parametrize("split", [False, True], ids=["one step", "several steps"])
def test_without_a_token_nothing_is_cached(testbed: Testbed, split: bool) -> None:
    devices = testbed.devices(needing(1, 1), needing(1, 1))
    for _ in range(2):
        testbed.load(b"", split)
    used = devices if split else [each for each in devices if each.count(PREPARE)]
    assert [caches(each.requests(PREPARE)) for each in used] == [[NO_CACHE] * 2] * len(used)
    assert sum(each.count(PREPARE) for each in devices) == (4 if split else 2)
    assert [each.count(RESTORE) for each in devices] == [0, 0]
    assert testbed.files == []


@pytest.mark.contract("RC-11", "RC-15")
@pytest.mark.parametrize(("model", "data"), list(product((0, 1, 32), repeat=2)))
def test_without_files_a_model_is_prepared_and_cached_if_the_device_needs_files(
    testbed: Testbed, model: int, data: int
) -> None:
    (scripted,) = testbed.devices(needing(model, data))
    testbed.load()
    token = token_of(TOKEN, "d0", VERSION, PrepareConfig(), None)
    supported = (model, data) != (0, 0)
    assert caches(scripted.requests(PREPARE)) == [(model, data, token) if supported else NO_CACHE]
    assert scripted.count(RESTORE) == 0
    assert [path.name for path in testbed.files] == sorted(file_names(token, "1", model) + file_names(token, "2", data))


@pytest.mark.contract("RC-12")
@pytest.mark.parametrize("split", [False, True], ids=["one step", "several steps"])
def test_a_cached_model_is_not_prepared_again(testbed: Testbed, split: bool) -> None:
    devices = testbed.devices(*[needing(2, 1)] * (2 if split else 1))
    for _ in range(3):
        testbed.load(split=split)
    for each in devices:
        (kept,) = caches(each.requests(PREPARE))
        restored = [(len(r.model_cache), len(r.data_cache), r.token) for r in each.requests(RESTORE)]
        assert restored == [kept] * 2
    assert len(testbed.files) == 3 * len(devices)


def compiling(request: Any, call: Call) -> backend_pb2.OptimizeSubgraphResponse:
    """Return what an optimiser says that compiles all operations together."""
    together = backend_pb2.Substitution(operations=range(len(request.model.main.operations)), replacement="compiled")
    return backend_pb2.OptimizeSubgraphResponse(substitutions=[together])


def failing(request: Any, call: Call) -> backend_pb2.OptimizeSubgraphResponse:
    """Return what an optimiser says that fails in all operations."""
    lost = backend_pb2.FailedSubgraph(operations=range(len(request.model.main.operations)), reason="too large")
    return backend_pb2.OptimizeSubgraphResponse(failed=[lost])


@pytest.mark.parametrize("split", [False, True], ids=["one step", "several steps"])
def test_what_a_device_makes_of_a_cached_step_is_asked_when_somebody_looks(testbed: Testbed, split: bool) -> None:
    devices = testbed.devices(*[{**needing(1, 1), OPTIMIZE: compiling}] * (2 if split else 1))
    testbed.load(split=split)
    asked = [each.count(OPTIMIZE) for each in devices]
    plan = testbed.load(split=split)
    assert [each.count(OPTIMIZE) for each in devices] == asked
    assert [plan.optimised(step) for step in plan.plan.steps] == [("compiled",)] * len(devices)
    assert [each.count(OPTIMIZE) for each in devices] == [count + 1 for count in asked]


def test_a_device_that_can_no_longer_prepare_a_cached_step_is_asked_where_it_fails(testbed: Testbed) -> None:
    refusal_now = refuse(HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, "too large by now"))
    first, second = testbed.devices({**needing(1, 1), OPTIMIZE: compiling}, {OPTIMIZE: compiling})
    assert [step.device for step in testbed.load().plan.steps] == ["d0"]
    first.script.update({OPTIMIZE: failing, RESTORE: refusal_now, PREPARE: refusal_now})
    plan = testbed.load()
    assert [step.device for step in plan.plan.steps] == ["d1"]
    assert not plan.choice.left_out  # it may have other steps: the answer says where it fails
    assert (first.count(OPTIMIZE), first.count(RESTORE), second.count(PREPARE)) == (2, 1, 1)


def test_a_device_that_keeps_nothing_of_a_model_is_not_asked_to_restore_it(testbed: Testbed) -> None:
    (scripted,) = testbed.devices(needing(1, 1))
    testbed.writes = False
    for _ in range(2):
        testbed.load()
    assert scripted.count(RESTORE) == 0
    assert scripted.count(PREPARE) == 2


def test_a_step_of_several_has_another_entry_than_the_whole_model(testbed: Testbed) -> None:
    devices = testbed.devices(needing(1, 1), needing(1, 1))
    testbed.load()
    testbed.load(split=True)
    assert [each.count(RESTORE) for each in devices] == [0, 0]
    tokens = [token for each in devices for _, _, token in caches(each.requests(PREPARE))]
    assert all(first != second for first, second in combinations(tokens, 2))
    assert len(tokens) == 3


@pytest.mark.contract("RC-13")
@pytest.mark.parametrize(
    "status", [ErrorStatus.GENERAL_FAILURE, ErrorStatus.DEVICE_UNAVAILABLE, ErrorStatus.INVALID_ARGUMENT]
)
@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(lambda status: preparing(LAUNCHED, notified(status)), id="notified"),
        pytest.param(lambda status: refuse(HalError(status, "no")), id="refused"),
    ],
)
def test_a_model_that_cannot_be_restored_is_prepared_and_cached_again(
    testbed: Testbed, status: ErrorStatus, fail: Callable[[ErrorStatus], Any]
) -> None:
    (scripted,) = testbed.devices({**needing(1, 1), RESTORE: fail(status)})
    for _ in range(2):
        testbed.load()
    assert scripted.count(RESTORE) == 1
    first, second = caches(scripted.requests(PREPARE))
    assert first == second == (1, 1, scripted.requests(RESTORE)[0].token)


@pytest.mark.contract("RC-14")
def test_a_device_that_does_not_cache_ignores_files(testbed: Testbed) -> None:
    (scripted,) = testbed.devices({})
    token = token_of(TOKEN, "d0", VERSION, PrepareConfig(), None)
    open_entry(testbed.cache, token, NumberOfCacheFiles(1, 1))
    testbed.load()
    assert scripted.count(RESTORE) == 0
    assert caches(scripted.requests(PREPARE)) == [NO_CACHE]


@pytest.mark.parametrize("missing", [0, 1])
def test_an_incomplete_set_of_files_is_not_read(testbed: Testbed, missing: int) -> None:
    (scripted,) = testbed.devices(needing(1, 1))
    testbed.load()
    testbed.files[missing].unlink()
    testbed.load()
    assert scripted.count(RESTORE) == 0
    assert len(set(caches(scripted.requests(PREPARE)))) == 1
    assert len(testbed.files) == 2


def link_elsewhere(testbed: Testbed) -> None:
    testbed.load()
    file = testbed.files[0]
    file.rename(testbed.cache / "elsewhere")
    file.symlink_to("elsewhere")


def no_directory(testbed: Testbed) -> None:
    testbed.cache.write_text("a file")


def test_a_pipe_in_place_of_a_file_is_made_anew(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (name,) = file_names(TOKEN, "1", 1)
    os.mkfifo(tmp_path / name)
    entry, is_complete = open_entry(tmp_path, TOKEN, NumberOfCacheFiles(1, 0))
    assert not is_complete
    assert stat.S_ISREG(os.fstat(entry.model[0].fileno()).st_mode)


@pytest.mark.parametrize("spoil", [link_elsewhere, no_directory])
def test_a_model_is_prepared_even_if_the_cache_cannot_be_opened(
    testbed: Testbed, spoil: Callable[[Testbed], None]
) -> None:
    (scripted,) = testbed.devices(needing(1, 1))
    spoil(testbed)
    with capture_logs() as events:
        testbed.load()
    assert scripted.count(RESTORE) == 0
    assert caches(scripted.requests(PREPARE))[-1] == NO_CACHE
    warnings = [event["event"] for event in events if event["log_level"] == "warning"]
    assert warnings == ["a compilation cannot be cached"]


def test_a_model_imported_in_another_way_has_other_tokens() -> None:
    cache = CacheDirectory(Path("cache"), TOKEN)
    variant = cache.of_variant("as one")
    assert variant == cache.of_variant("as one")
    assert (variant.path, len(variant.token)) == (cache.path, len(TOKEN))
    assert variant.token != TOKEN


@pytest.mark.contract("RC-16")
def test_a_device_is_used_if_it_reports_a_valid_number_of_cache_files(testbed: Testbed) -> None:
    pairs = list(product((0, 1, 32, 33), repeat=2))
    unavailable = refuse(HalError(ErrorStatus.DEVICE_UNAVAILABLE, "not now"))
    testbed.devices(*(needing(*pair) for pair in pairs), {"Device.GetNumberOfCacheFilesNeeded": unavailable})
    taken = [int(member.name[1:]) for member in testbed.fleet.available()]
    assert [pairs[number] for number in taken] == list(product((0, 1, 32), repeat=2))
    refusal(lambda: testbed.fleet.get(f"d{len(pairs)}"), ErrorStatus.DEVICE_UNAVAILABLE, "not now")
