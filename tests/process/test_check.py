"""``nnhal check``: each fault of a foreign device breaks the rule that is about it, and the command reports it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import grpc
import pytest
from typer.testing import CliRunner

from nnhal.endpoint import Endpoint
from nnhal_conformance import RULES, RuleResult, Verdict, ask_rules
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.host.process import host
from nnhal_devices.host.servicers.execution import ExecutionServicer
from nnhal_devices.host.servicers.prepared_model import PreparedModelServicer
from nnhal_devices.host.settings import DeviceSettings
from nnhal_tools.cli.app import app
from tests.support.foreign.faults import FaultName
from tests.support.foreign.process import ForeignDevice, foreign_device

pytestmark = pytest.mark.slow
SECONDS = 30.0
IMPATIENT_SECONDS = 0.5


def asked(endpoint: Endpoint, *ids: str, seconds: float = SECONDS) -> dict[str, RuleResult]:
    rules = [RULES[each] for each in ids] or list(RULES.values())
    return {result.rule.id: result for result in ask_rules(endpoint, rules, seconds)}


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
    "answers puts twice": ("link.put", "a put of 1 was answered with"),
    "closes the channel": ("run-channels.run", "was closed, expected an answer"),
    "does not fit": ("executions.execute.reusable", "expected true, since the output fits"),
    "fails without a fence": ("executions.execute.launch-launch-channel", "it failed, expected success"),
    "gives no fence": ("fences.waiting.launch-channel", "no fence of a launch that waits"),
    "hangs in CreateReusableExecution": ("executions.again", "was not answered within 0.5 s"),
    "hangs in PrepareModelWithConfig": ("models.prepared.config", "was not answered within 0.5 s"),
    "never answers": ("executions.execute.burst", "nothing came on the burst's channel for 0.5 s"),
    "never signals": ("executions.execute.launch-launch-channel", "a fence was pending for 0.5 s"),
    "no socket": ("executions.execute.burst", "no socket"),
    "prepares for ever": ("models.prepared.config", "was not answered within 0.5 s"),
    "prepares the same": ("models.prepared.config", "the handle of another prepared model"),
    "puts extra": ("link.put", "a put of 5 was answered with"),
    "puts nothing": ("link.put", "a put of 5 was answered with"),
    "puts the same": ("link.put", "expected each once"),
    "puts zero": ("link.put", "expected 16 ids above 0"),
    "repeats the answer before": ("bursts.one-answer-for-each-call", "expected"),
    "rings twice": ("chains.rings", "one answer for each call"),
    "signals early": ("fences.error-after.launch-channel", "got a signal, expected a fence in error"),
    "writes nothing": ("executions.execute.reusable", "the output was not written"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_the_check_that_asks_about_it(foreign: ForeignDevice, fault: FaultName) -> None:
    name, words = FAULTS[fault]
    assert asked(foreign.endpoint, name)[name].verdict is Verdict.PASSED
    foreign.fail(fault)
    (result,) = asked(foreign.endpoint, name, seconds=IMPATIENT_SECONDS).values()
    assert result.verdict is Verdict.FAILED
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
        assert result.verdict is Verdict.FAILED
        assert words in result.words


def not_served(_: object, __: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def test_a_device_that_executes_in_bursts_only_is_asked_there(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreparedModelServicer, "ExecuteSynchronouslyWithConfig", not_served)
    monkeypatch.setattr(ExecutionServicer, "ExecuteSynchronously", not_served)
    ids = [name for name, rule in RULES.items() if rule.group in ("executions", "pools")]
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()):
        results = asked(Endpoint(short_path), *ids).values()
    assert [(each.rule.id, each.words) for each in results if each.verdict is not Verdict.PASSED] == []


NUMBERED = ("bursts.numbers", "run-channels.numbers", "launch-channels.numbers", "chains.numbers")


def test_answers_without_numbers_are_allowed_and_others_must_have_those_of_their_calls(
    foreign: ForeignDevice, short_path: Path
) -> None:
    results = asked(foreign.endpoint, *NUMBERED).values()
    assert {result.verdict for result in results} == {Verdict.NOT_OFFERED}
    with foreign_device(short_path, numbers=True) as numbering:
        assert {result.verdict for result in asked(numbering.endpoint, NUMBERED[0]).values()} == {Verdict.PASSED}
        numbering.fail("repeats the answer before")
        result = asked(numbering.endpoint, NUMBERED[0])[NUMBERED[0]]
        assert result.verdict is Verdict.FAILED
        assert "expected that of the call" in result.words


def test_what_a_device_does_not_serve_is_not_offered_and_what_follows_is_said(foreign: ForeignDevice) -> None:
    ids = ("buffer-copies.copies", "fences.launch.request", "caching.restored", "models.prepared.plain")
    results = asked(foreign.endpoint, *ids)
    assert {result.verdict for result in results.values()} == {Verdict.NOT_OFFERED}
    assert results["buffer-copies.copies"].words == "no Allocate: the framework stages values"
    assert results["fences.launch.request"].words.endswith(": the framework launches on launch channels only")
    assert results["caching.restored"].words == "no cache files: each load compiles"


def test_a_device_that_dies_fails_the_check_and_the_next_ones_are_not_asked(short_path: Path) -> None:
    with foreign_device(short_path) as foreign:
        rules = [RULES[each] for each in ("getters.version", "getters.type", "getters.version")]
        results = ask_rules(foreign.endpoint, rules, IMPATIENT_SECONDS, back_seconds=0)
        assert next(results).verdict is Verdict.PASSED
        os.kill(foreign.pid, signal.SIGKILL)
        died, after = results
        assert (died.verdict, after.verdict) == (Verdict.FAILED, Verdict.NOT_ASKED)
        assert after.words == "the device has not served again since getters.type failed"


def test_a_device_that_comes_back_is_asked_on(short_path: Path) -> None:
    with foreign_device(short_path) as foreign:
        rules = [RULES[each] for each in ("getters.version", "getters.type", "getters.version")]
        results = ask_rules(foreign.endpoint, rules, SECONDS)
        next(results)
        foreign.kill()
        assert next(results).verdict is Verdict.FAILED
        foreign.start()
        assert next(results).verdict is Verdict.PASSED


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *words])
    return result.exit_code, result.output


def test_the_command_reports_and_its_status_says_how_it_ended(foreign: ForeignDevice, tmp_path: Path) -> None:
    directory, file = str(foreign.endpoint.directory), tmp_path / "junit.xml"
    status, text = run(directory, "--only", "getters.version", "--only", "buffers", "--junit", str(file))
    assert status == 0
    assert "  passed       version: GetVersionString gives a string that is not empty." in text
    assert "no Allocate: the framework stages values" in text
    buffers = sum(each.group == "buffers" for each in RULES.values())
    assert text.endswith(f"{buffers + 1} rules: 1 passed, {buffers} not offered\n")
    root = ElementTree.parse(file).getroot()
    suites = {suite.get("name"): (suite.get("tests"), suite.get("skipped")) for suite in root}
    assert suites == {"getters": ("1", "0"), "buffers": (str(buffers), str(buffers))}
    foreign.fail("answers twice")
    status, text = run(directory, "--only", "bursts.one-answer-for-each-call", "--junit", str(file))
    assert status == 1
    assert "(docs/reference/protocol.md#channels)" in text
    (failure,) = ElementTree.parse(file).getroot().iter("failure")
    assert "another answer" in str(failure.get("message"))


def test_a_device_that_is_not_there_cannot_be_asked(short_path: Path) -> None:
    status, text = run(str(short_path))
    assert status == 2
    assert "cannot be asked" in text
