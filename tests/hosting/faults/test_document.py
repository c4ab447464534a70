"""Files of faults: what they may say, and what is said of one that is wrong."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from nnhal_hosting.faults import (
    DelayFault,
    FaultDocument,
    FaultDocumentError,
    read_document,
    read_faults_file,
)

DOCS = Path(__file__).parents[3] / "docs/reference/faults.md"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_examples_of_the_documentation_are_valid(tmp_path: Path) -> None:
    found = []
    for example in re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL):
        document = read_faults_file(written(tmp_path / "faults.toml", example))
        assert read_document(document.as_json()) == document
        found.append([fault.what for fault in document.fault])
    assert found == [["error", "delay", "death"], ["values"]]


def test_json_says_the_same_as_toml(tmp_path: Path) -> None:
    toml = read_faults_file(written(tmp_path / "faults.toml", '[[fault]]\nwhat = "hang"\ndevice = "npu*"\n'))
    given = {"fault": [{"what": "hang", "device": ["npu*"]}]}
    assert read_faults_file(written(tmp_path / "faults.json", json.dumps(given))) == toml
    assert read_faults_file(written(tmp_path / "faults.json", json.dumps({"version": 1, **given}))) == toml
    assert (len(toml.of("npu7").fault), len(toml.of("gpu").fault)) == (1, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[[fault]]\nwhat = "hang"\nname = "a"\n[[fault]]\nwhat = "hang"\nname = "a"',
            "got the name 'a' more",
        ),
        ('[[fault]]\nwhat = "hang"\nnth = 2\nevery = 3', "got nth 2 and every 3, expected one of them"),
        ('[[fault]]\nwhat = "hang"\nprobability = 2', "fault 1, probability: got 2, expected: input should be less"),
        ('[[fault]]\nwhat = "delay"\nms = 1\ndistribution = "normal"', "expected spread_ms above 0 with uniform"),
        (
            '[[fault]]\nwhat = "death"\nsignal = "SIGKILL"\nexit = 1',
            "got signal SIGKILL and exit 1, expected one",
        ),
        ('[[fault]]\nwhat = "death"\nsignal = "SIGUSR1"', "fault 1, signal: got SIGUSR1"),
        ("fault = 3", "fault: got 3"),
        ("version = 2\ncurse = 1", "faults.toml: faults of version 2; this nnhal reads version 1"),
        ("[[fault]]\nname = 7", "fault 1: what: got 'nothing', expected answer"),
        ("[[fault", "faults.toml: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FaultDocumentError, match=re.escape(words)):
        read_faults_file(written(tmp_path / "faults.toml", text))


def test_a_file_that_is_missing_or_deep_is_told(tmp_path: Path) -> None:
    with pytest.raises(FaultDocumentError, match="No such file"):
        read_faults_file(tmp_path / "none.toml")
    with pytest.raises(FaultDocumentError, match="the faults are no JSON"):
        read_document("[" * 100_000)


@pytest.mark.parametrize("distribution", ["fixed", "uniform", "normal", "exponential"])
def test_delays_are_drawn_around_their_middle(distribution: str) -> None:
    spread = 4.0 if distribution in ("uniform", "normal") else 0.0
    fault = DelayFault(what="delay", ms=10, distribution=distribution, spread_ms=spread)  # type: ignore[arg-type]
    source = random.Random(1)
    drawn = [fault.drawn_seconds(source) for _ in range(2000)]
    assert min(drawn) >= 0
    assert sum(drawn) / len(drawn) == pytest.approx(0.010, rel=0.1)
    assert (len(set(drawn)) == 1) == (distribution == "fixed")


def test_the_schema_names_every_kind() -> None:
    kinds = FaultDocument.model_json_schema()["properties"]["fault"]["items"]["discriminator"]["mapping"]
    text = DOCS.read_text()
    assert [kind for kind in kinds if f"| `{kind}` |" not in text] == []
