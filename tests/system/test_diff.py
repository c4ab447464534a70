"""``nnhal diff``: as an object, as a page, as a table, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import nnhal
from tests.support.html import parsed
from tests.support.mobilenet import MobileNet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An int8 network."""
    path = tmp_path_factory.mktemp("diff") / "body.tflite"
    path.write_bytes(MobileNet(body_only=True).content)
    return path


def test_the_command_tells_one_story_as_json_and_as_a_page(body: Path, tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    done = nnhal("diff", str(body), "--dut", "ethos_n", "--max-ulp", "0", "--json", "--html", str(html))
    story = json.loads(done.stdout)
    over = [layer for layer in story["layers"] if layer["over"]]
    assert done.returncode == (1 if over else 0)
    assert len(over) > 0
    assert story["first"] == over[0]["number"]
    assert over[0]["origin"] == "made"
    for layer in story["layers"]:
        assert sum(layer["error"]["steps"].values()) == layer["error"]["elements"]

    page = parsed(html.read_text())
    assert len(page.having("node")) == len(page.having("place")) == len(story["layers"])
    assert len(page.having("origin-made")) == sum(layer["origin"] == "made" for layer in over)


def test_limits_that_hold_end_well_and_the_table_says_where_they_part(body: Path) -> None:
    done = nnhal("diff", str(body), "--dut", "ethos_n", "--min-sqnr", "5", "--samples", "2")
    assert done.returncode == 0, done.stderr
    assert "agree in all" in done.stdout.splitlines()[-1]
    assert nnhal("diff", str(body), "--dut", "ethos_n", "--max-ulp", "0", "--samples", "2").returncode == 1


def test_noise_ends_well_and_an_error_does_not(body: Path) -> None:
    done = nnhal("diff", str(body), "--dut", "ethos_n")
    assert done.returncode == 0, done.stderr
    assert "differ by noise of the layers before" in done.stdout.splitlines()[-1]
    assert nnhal("diff", str(body), "--dut", "ethos_n", "--max-ulp", "0", "--report-only").returncode == 0


def test_mistakes_are_one_line(body: Path, tmp_path: Path) -> None:
    done = nnhal("diff", str(body), "--dut", "nothing")
    assert done.returncode == 1
    assert "no driver is called 'nothing'" in done.stderr
    done = nnhal("diff", str(tmp_path / "absent.onnx"), "--dut", "cpu_acc")
    assert (done.returncode, "No such file" in done.stderr) == (1, True)
