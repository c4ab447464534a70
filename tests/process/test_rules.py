"""The rules of the contract, asked of each device of ours, and of a file that another team writes for its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal_conformance import RULES, Known, Rule, Verdict, ask_rule, ask_rules
from tests.support.far_devices import far_device, near_device
from tests.support.processes import device_process

SECONDS = 30.0
_OF_CPU_REF = ("executions.empty-output", "executions.omitted-input", "executions.loops", "open-buffers.empty-result")
"""Rules about operations that no device but cpu_ref has."""
_CLOSED = (*_OF_CPU_REF, "buffer-roles.scalars", "open-buffers.any-rank")
"""With rules about forms of the small model that only cpu_ref supports."""
_NPU = (
    *_CLOSED,
    "open-buffers",
    "buffer-roles.too-much",
    "executions.open-inputs",
    "buffers.failed-run",
    "fences.failed-run",
)
"""With rules about models that leave dimensions of inputs open, and about GATHER."""
NOT_OFFERED = {
    "cpu_ref": ("models.unsupported",),  # it supports every small model
    "cpu_acc": ("models.unsupported", *_CLOSED),
    "gpu_acc": ("chains", *_CLOSED),
    "ethos_n": _NPU,
    "ethos_u": _NPU,
    "mlip": _NPU,
    "remote": ("models.unsupported", "caching"),
}
"""Names of rules about things that a device does not offer."""
WITHOUT_MODELS = 29
"""Rules that need no model that a device supports."""


EVERY_WAY = ("cpu_ref", "cpu_acc")
"""Devices of which a rule about several ways is asked for each of them; the ways are the host's, which all share."""


def _cases() -> Iterator[object]:
    """Yield devices and rules. Of other devices a rule is asked in one way, another one for the next rule."""
    for turn, name in enumerate(NOT_OFFERED):
        for number, (_, same) in enumerate(groupby(RULES.values(), lambda rule: (rule.group, rule.name))):
            ways = list(same)
            for rule in ways if name in EVERY_WAY else [ways[(number + turn) % len(ways)]]:
                marks = [pytest.mark.contract(*rule.rows)] if rule.rows else []
                yield pytest.param(name, rule, marks=marks, id=f"{name}-{rule.id}")


@pytest.fixture(scope="module")
def device(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Endpoint, Known]]:
    """Start each device, and one on another host."""
    name, folder = request.param, tmp_path_factory.mktemp("d")
    with ExitStack() as stack:
        if name == "remote":
            far = stack.enter_context(far_device(folder))
            yield name, stack.enter_context(near_device(folder, far)).endpoint, Known()
        else:
            _, endpoint = stack.enter_context(device_process(name, folder))
            yield name, endpoint, Known()


@pytest.mark.parametrize(("device", "rule"), list(_cases()), indirect=["device"])
def test_each_device_follows_the_rules(device: tuple[str, Endpoint, Known], rule: Rule) -> None:
    name, endpoint, known = device
    result = ask_rule(rule, endpoint, SECONDS, known)
    is_offered = not set(rule.names) & set(NOT_OFFERED[name])
    assert result.verdict is (Verdict.PASSED if is_offered else Verdict.NOT_OFFERED), f"{rule.sentence} {result.words}"


def test_a_device_without_any_model_follows_the_rules_that_need_none(short_path: Path) -> None:
    with device_process("null", short_path) as (_, endpoint):
        verdicts = [result.verdict for result in ask_rules(endpoint, [*RULES.values()], SECONDS)]
    assert (verdicts.count(Verdict.PASSED), verdicts.count(Verdict.FAILED)) == (WITHOUT_MODELS, 0)


OF_A_TEAM = """
import pytest

from nnhal.endpoint import Endpoint
from nnhal_conformance.test_rules import test_rule
from tests.support.processes import device_process

@pytest.fixture(scope="session")
def nnhal_device(tmp_path_factory):
    with device_process("ethos_n", tmp_path_factory.mktemp("d")) as (_, endpoint):
        yield endpoint
"""


@pytest.mark.parametrize("way", ["option", "fixture"])
def test_another_team_has_each_rule_as_a_test(cpu_ref: Endpoint, tmp_path: Path, way: str) -> None:
    options = ["-k", "getters", "-p", "no:cacheprovider"]
    if way == "option":
        options += ["--nnhal-device", str(cpu_ref.directory), "--pyargs", "nnhal_conformance"]
    else:
        (tmp_path / "test_of_a_team.py").write_text(OF_A_TEAM)
        options += [str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    count = sum(each.group == "getters" for each in RULES.values())
    assert f"{count} passed" in done.stdout, done.stdout


def test_a_device_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--nnhal-device", str(tmp_path), "--pyargs", "nnhal_conformance"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stdout.count(f"--nnhal-device {tmp_path}: ") == 1, done.stdout
