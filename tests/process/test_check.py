"""``nnhal check``: our own devices pass it, and each fault of a foreign one fails the check that asks about it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import grpc
import pytest
from typer.testing import CliRunner

from nnhal.endpoint import Endpoint
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.host.process import host
from nnhal_devices.host.servicers.execution import ExecutionServicer
from nnhal_devices.host.servicers.prepared_model import PreparedModelServicer
from nnhal_devices.host.settings import DeviceSettings
from nnhal_tools.check import CHECKS, CheckResult, CheckVerdict, run_checks
from nnhal_tools.cli.app import app
from tests.support.far_devices import far_device, near_device
from tests.support.foreign.faults import FaultName
from tests.support.foreign.process import ForeignDevice, foreign_device
from tests.support.processes import device_process

pytestmark = pytest.mark.slow
SECONDS = 30.0
IMPATIENT_SECONDS = 0.5
OF_MODEL = 107
"""Checks that need a model, or what a device has that supports one."""


def asked(endpoint: Endpoint, *ids: str, seconds: float = SECONDS) -> dict[str, CheckResult]:
    checks = [CHECKS[each] for each in ids] or list(CHECKS.values())
    return {result.check.id: result for result in run_checks(endpoint, checks, seconds)}


def of_group(results: Sequence[CheckResult], verdict: CheckVerdict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for result in results:
        if result.verdict is verdict:
            found.setdefault(result.check.group, []).append(result.check.name)
    return found


def require_passed(endpoint: Endpoint) -> dict[str, list[str]]:
    results = list(asked(endpoint).values())
    assert [(result.check.id, result.words) for result in results if result.verdict is CheckVerdict.FAILED] == []
    return of_group(results, CheckVerdict.NOT_OFFERED)


def test_cpu_ref_passes(cpu_ref: Endpoint) -> None:
    assert require_passed(cpu_ref) == {"models": ["unsupported"]}  # it supports every small model


def test_cpu_acc_passes(cpu_acc: Endpoint) -> None:
    assert require_passed(cpu_acc) == {"models": ["unsupported"]}


@pytest.mark.parametrize("driver", ["ethos_n", "ethos_u", "mlip"])
def test_a_device_of_8_bits_passes(short_path: Path, driver: str) -> None:
    with device_process(driver, short_path) as (_, endpoint):
        assert require_passed(endpoint) == {}


def test_an_asynchronous_device_passes_and_offers_no_chains(short_path: Path) -> None:
    with device_process("gpu_acc", short_path) as (_, endpoint):
        chains = [check.name for check in CHECKS.values() if check.group == "chains"]
        assert require_passed(endpoint) == {"chains": chains}


def test_a_device_without_any_model_passes_what_needs_none(short_path: Path) -> None:
    with device_process("null", short_path) as (_, endpoint):
        assert sum(map(len, require_passed(endpoint).values())) == OF_MODEL


def test_a_device_on_another_host_passes(short_path: Path) -> None:
    with far_device(short_path) as far, near_device(short_path, far) as near:
        require_passed(near.endpoint)


@pytest.fixture(scope="module")
def foreign_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignDevice]:
    """A shared foreign device."""
    with foreign_device(tmp_path_factory.mktemp("f")) as device:
        yield device


@pytest.fixture
def foreign(foreign_process: ForeignDevice) -> Iterator[ForeignDevice]:
    """The shared foreign device, without faults before and after a test."""
    yield foreign_process
    foreign_process.behave()


FAULTS: dict[FaultName, tuple[str, str]] = {
    "answers twice": ("bursts.one-answer-for-each-call", "another answer"),
    "answers nothing": ("run-channels.run", "an empty datagram came on the run channel"),
    "answers insufficient": ("run-channels.run", "the output was not written"),
    "closes the channel": ("run-channels.run", "was closed, expected an answer"),
    "no socket": ("bursts.execute", "no socket"),
    "never answers": ("bursts.execute", "nothing came on the burst's channel for 0.5 s"),
    "rings twice": ("chains.rings", "one answer for each call"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_the_check_that_asks_about_it(foreign: ForeignDevice, fault: FaultName) -> None:
    name, words = FAULTS[fault]
    assert asked(foreign.endpoint, name)[name].verdict is CheckVerdict.PASSED
    foreign.fail(fault)
    (result,) = asked(foreign.endpoint, name, seconds=IMPATIENT_SECONDS).values()
    assert result.verdict is CheckVerdict.FAILED
    assert words in result.words


@pytest.mark.parametrize(
    ("method", "fields", "name", "words"),
    [
        ("GetVersionString", {"version": ""}, "getters.version", "empty version"),
        ("GetType", {"type": 77}, "getters.type", "device type 77"),
        ("GetNumberOfCacheFilesNeeded", {"numberOfCacheFiles": {"numModelCache": 33}}, "getters.cache-files", "33"),
        ("GetSupportedOperations", {"supported": []}, "models.support", "0 answers"),
    ],
)
def test_an_answer_that_cannot_be_fails_its_check(
    short_path: Path, method: str, fields: dict[str, object], name: str, words: str
) -> None:
    with foreign_device(short_path) as foreign:
        foreign.change(method, **fields)
        result = asked(foreign.endpoint, name)[name]
        assert result.verdict is CheckVerdict.FAILED
        assert words in result.words


def not_served(_: object, __: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def test_a_device_that_executes_in_bursts_only_is_asked_there(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreparedModelServicer, "ExecuteSynchronouslyWithConfig", not_served)
    monkeypatch.setattr(ExecutionServicer, "ExecuteSynchronously", not_served)
    ids = [name for name, check in CHECKS.items() if check.group in ("executions", "pools")]
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()):
        results = asked(Endpoint(short_path), *ids).values()
    assert [(each.check.id, each.words) for each in results if each.verdict is not CheckVerdict.PASSED] == []


NUMBERED = ("bursts.numbers", "run-channels.numbers", "launch-channels.numbers", "chains.numbers")


def test_answers_without_numbers_are_allowed_and_others_must_have_those_of_their_calls(
    foreign: ForeignDevice, short_path: Path
) -> None:
    results = asked(foreign.endpoint, *NUMBERED).values()
    assert {result.verdict for result in results} == {CheckVerdict.NOT_OFFERED}
    with foreign_device(short_path, numbers=True) as numbering:
        assert {result.verdict for result in asked(numbering.endpoint, NUMBERED[0]).values()} == {CheckVerdict.PASSED}
        numbering.fail("repeats the answer before")
        result = asked(numbering.endpoint, NUMBERED[0])[NUMBERED[0]]
        assert result.verdict is CheckVerdict.FAILED
        assert "expected that of the call" in result.words


def test_what_a_device_does_not_serve_is_not_offered_and_what_follows_is_said(foreign: ForeignDevice) -> None:
    ids = ("buffers.copies", "fences.launch", "caching.restored", "models.plain-preparation")
    results = asked(foreign.endpoint, *ids)
    assert {result.verdict for result in results.values()} == {CheckVerdict.NOT_OFFERED}
    assert results["buffers.copies"].words == "no Allocate: the framework stages values"
    assert results["fences.launch"].words.endswith(": the framework launches on launch channels only")
    assert results["caching.restored"].words == "no cache files: each load compiles"


def test_a_device_that_dies_fails_the_check_and_the_next_ones_are_not_asked(short_path: Path) -> None:
    with foreign_device(short_path) as foreign:
        checks = [CHECKS[each] for each in ("getters.version", "getters.type", "getters.version")]
        results = run_checks(foreign.endpoint, checks, IMPATIENT_SECONDS, back_seconds=0)
        assert next(results).verdict is CheckVerdict.PASSED
        os.kill(foreign.pid, signal.SIGKILL)
        died, after = results
        assert (died.verdict, after.verdict) == (CheckVerdict.FAILED, CheckVerdict.NOT_ASKED)
        assert after.words == "the device has not served again since getters.type failed"


def test_a_device_that_comes_back_is_asked_on(short_path: Path) -> None:
    with foreign_device(short_path) as foreign:
        checks = [CHECKS[each] for each in ("getters.version", "getters.type", "getters.version")]
        results = run_checks(foreign.endpoint, checks, SECONDS)
        next(results)
        foreign.kill()
        assert next(results).verdict is CheckVerdict.FAILED
        foreign.start()
        assert next(results).verdict is CheckVerdict.PASSED


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *words])
    return result.exit_code, result.output


def test_the_command_reports_and_its_status_says_how_it_ended(foreign: ForeignDevice, tmp_path: Path) -> None:
    directory, file = str(foreign.endpoint.directory), tmp_path / "junit.xml"
    status, text = run(directory, "--only", "getters.version", "--only", "buffers", "--junit", str(file))
    assert status == 0
    assert "  passed       version: GetVersionString gives a string that is not empty." in text
    assert "no Allocate: the framework stages values" in text
    assert text.endswith("8 checks: 1 passed, 7 not offered\n")
    root = ElementTree.parse(file).getroot()
    suites = {suite.get("name"): (suite.get("tests"), suite.get("skipped")) for suite in root}
    assert suites == {"getters": ("1", "0"), "buffers": ("7", "7")}
    foreign.fail("answers twice")
    status, text = run(directory, "--only", "bursts.one-answer-for-each-call", "--junit", str(file))
    assert status == 1
    assert "(docs/link.md#channels)" in text
    (failure,) = ElementTree.parse(file).getroot().iter("failure")
    assert "another answer" in str(failure.get("message"))


def test_a_device_that_is_not_there_cannot_be_asked(short_path: Path) -> None:
    status, text = run(str(short_path))
    assert status == 2
    assert "cannot be asked" in text
