"""One report over three sources of cases: in a terminal, as JSON, as JUnit's XML and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.command import command, nnhal
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.html import parsed
from tests.support.onnx_models import onnx_model

pytestmark = pytest.mark.slow
VECTORS = Path(__file__).parents[2] / "examples/vectors.jsonl"
RELU = "--filter=^relu_float$"
Source = Callable[[Path], list[str]]


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver whose RELU is another function."""
    write_faulty_driver(tmp_path / "backends", "Wrong", {"RELU": "ABS"})
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path / "backends"))


def vectors(folder: Path) -> list[str]:
    del folder
    return ["conformance", str(VECTORS), RELU, "--device", "Wrong"]


def layers(folder: Path) -> list[str]:
    path = folder / "network.onnx"
    onnx.save(onnx_model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": [2, 8]}, ["y"]), path)
    values = folder / "x.npz"
    np.savez(values, x=np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    return ["diff", str(path), "--dut", "Wrong", "--input", str(values)]


def calls(folder: Path) -> list[str]:
    path = folder / "session.nnrec"
    asked = command(["conformance", str(VECTORS), RELU, "--device", "{device}"])
    assert nnhal("record", "--device", "cpu_ref", "-o", str(path), "--", *asked).returncode == 0
    return ["replay", str(path), "--device", "Wrong"]


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (vectors, "relu_float, sync over ashmem: output 0: "),
        (layers, "Wrong and cpu_ref part at layer 0, RELU relu: largest error 1"),
        (calls, "from operation 0 (RELU), by comparison with cpu_ref: made there"),
    ],
)
def test_each_form_of_the_report_tells_of_the_failure(tmp_path: Path, source: Source, words: str) -> None:
    files = {form: tmp_path / f"report.{form}" for form in ("json", "xml", "html")}
    arguments = [*source(tmp_path), "--junit", str(files["xml"]), "--html", str(files["html"])]
    done = nnhal(*arguments, *(["--json", str(files["json"])] if source is vectors else []))
    assert done.returncode == 1, done.stderr
    assert words in done.stdout

    text = files["json"].read_text() if source is vectors else nnhal(*arguments, "--json").stdout
    (case,) = (case for case in json.loads(text)["cases"] if case["verdict"] == "failed")
    assert (case["operation"], case["type"]) == ("RELU", "TENSOR_FLOAT32")

    suites = list(ElementTree.parse(files["xml"]).getroot())
    assert [suite.get("failures") for suite in suites if suite.get("name") == case["group"]] == ["1"]
    (failure,) = (each for suite in suites for test in suite for each in test if each.tag == "failure")
    assert failure.get("message") == case["reason"]

    page = files["html"].read_text()
    assert case["reason"].split(":")[0] in page
    assert parsed(page).having("stacking")
