"""``nnhal record``: a command whose clients are recorded, and a recording for people and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nnhal_tools.cases.vectors import read_vectors
from tests.support.command import command, nnhal
from tests.support.recordings import Recorded, recordable_device

pytestmark = pytest.mark.slow
VECTORS = Path(__file__).parents[2] / "examples/vectors.jsonl"
ACCEPTED = [vector for vector in read_vectors(VECTORS) if not vector.expect_failure]
CLIENT = "import sys; from nnhal_client import connect; connect(sys.argv[1]).close(); sys.exit(7)"


@pytest.fixture(scope="module")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "session.nnrec"
    run = command(["conformance", str(VECTORS), "--device", "{device}", "--mode", "sync", "--mode", "burst"])
    done = nnhal("record", "--device", "cpu_ref", "-o", str(path), "--", *run)
    assert done.returncode == 0, done.stderr
    assert f"{path}: " in done.stderr
    return path


def test_a_recording_is_shown(conformance: Path) -> None:
    shown = nnhal("record", "show", str(conformance))
    assert shown.returncode == 0
    assert "session.nnrec: cpu_ref" in shown.stdout
    assert "model 1: RELU; 1 inputs, 1 outputs" in shown.stdout
    assert "nnhal-conformance" in shown.stdout
    assert shown.stdout.count("Channel.Burst") >= len(ACCEPTED)
    assert "INVALID_ARGUMENT: operation 0 (RELU)" in shown.stdout
    story = json.loads(nnhal("record", "show", str(conformance), "--json").stdout)
    assert story["header"]["driver"] == "cpu_ref"
    assert len([call for call in story["calls"] if call["method"] == "Device.PrepareModelWithConfig"]) == len(ACCEPTED)


def test_the_exit_status_is_that_of_a_command_whose_framework_uses_the_device(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    done = nnhal("record", "--device", "cpu_acc", "-o", str(path), "--", sys.executable, "-c", CLIENT, "{framework}")
    assert done.returncode == 7, done.stderr
    assert Recorded(path).is_complete


def test_a_running_device_is_recorded_for_some_seconds(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with recordable_device(tmp_path) as endpoint:
        named = ("--directory", str(tmp_path), "--device", endpoint.directory.name)
        done = nnhal("record", *named, "-o", str(path), "--seconds", "0.1", "--json")
    assert json.loads(done.stdout)["file"] == str(path)
    assert Recorded(path).is_complete


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "nothing", "-o", "x.nnrec"], "no device is called 'nothing'"),
        (["--device", "cpu_ref"], "--output"),
        ([], "expected --device and --output to record, or 'show' and one FILE"),
        (["show", __file__], "not a recording of a device"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = nnhal("record", "--directory", str(tmp_path), *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_replay_on_a_device_that_answers_the_same_ends_well(conformance: Path) -> None:
    same = nnhal("replay", str(conformance), "--device", "cpu_acc", "--json")
    assert same.returncode == 0, same.stdout
    cases = json.loads(same.stdout)["cases"]
    assert {case["verdict"] for case in cases} == {"passed"}
    assert len([case for case in cases if "Execute" in case["name"] or "Burst" in case["name"]]) == 2 * len(ACCEPTED)
