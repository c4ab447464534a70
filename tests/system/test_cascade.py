"""``nnhal cascade``: as tables, as an object, as a page, and with a run on the device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.cascades import write_network
from tests.support.command import nnhal, nnhal_on_terminal
from tests.support.html import parsed
from tests.support.vela_edges import EDGES


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_network(tmp_path_factory.mktemp("models") / "network.tflite"))


def test_the_tables_fit_a_terminal(network: str) -> None:
    status, text = nnhal_on_terminal(100, "cascade", network)
    assert status == 0
    assert max(map(len, text.splitlines())) <= 100
    assert "network.tflite on u55-128" in text


def test_the_object_has_the_schedule_and_the_frontier(network: str) -> None:
    done = nnhal("cascade", network, "--sram", "1400", "--frontier", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["fits"] and told["planned"]["peak"] <= told["budget"] == 1400
    assert sum(len(plan["parts"]) for plan in told["plans"]) == 4
    assert [point["chosen"] for point in told["frontier"]].count(True) == 1


def test_a_run_measures_what_was_planned(network: str) -> None:
    done = nnhal("cascade", network, "--sram", "1400", "--checked", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"] == told["planned"]


def test_an_input_may_be_streamed(network: str, tmp_path: Path) -> None:
    given = ("cascade", network, "--input", "streamed", "--frontier")
    least = json.loads(nnhal(*given, "--json").stdout)["least"]["bytes"]
    page = tmp_path / "page.html"
    done = nnhal(*given, "--sram", str(least), "--checked", "--json", "--html", str(page))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"] == told["planned"]
    assert (told["input"], told["handed_over"]) == ("streamed", 256)
    assert parsed(page.read_text()).all("title")[0].text == "network.tflite on u55-128"
    assert "input   streamed: the client hands over 256 bytes as they are needed" in nnhal(*given).stdout


def test_options_of_the_search_show_in_the_schedule_that_runs(network: str) -> None:
    given = ("cascade", network, "--block-config", "1x4x16", "--stripe-factors", "1", "--always-copy-size", "1KiB")
    done = nnhal(
        *given, "--max-proposals", "1", "--max-plan-size", "2", "--cascade-region", "sram", "--checked", "--json"
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"] == told["planned"]
    parts = [part for plan in told["plans"] for part in plan["parts"]]
    assert len(told["plans"]) == len(parts), "without stripes there are no cascades"
    assert {part["weights"] for part in parts if part["weight_bytes"]} <= {"resident", "double buffered"}
    best = json.loads(nnhal("cascade", network, "--json").stdout)
    assert best["planned"]["cycles"] < told["planned"]["cycles"]


def test_the_least_of_a_frontier_is_told_with_its_search_and_a_bound(network: str) -> None:
    told = json.loads(nnhal("cascade", network, "--frontier", "--json").stdout)
    least = told["least"]
    assert least["bytes"] == told["frontier"][-1]["peak"] >= least["bound"]["bytes"]
    text = nnhal("cascade", network, "--frontier").stdout
    assert f"with plans of up to {least['parts']} parts; bound {least['bound']['bytes']:,} bytes" in " ".join(
        text.split()
    )


def test_a_budget_that_is_too_small_ends_with_the_least(network: str) -> None:
    done = nnhal("cascade", network, "--sram", "300", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["fits"] is False
    assert f"the least found is {told['least']:,} bytes" in done.stderr


def test_the_largest_subgraph_is_compiled_and_the_rest_is_named(tmp_path: Path) -> None:
    done = nnhal("cascade", str(write_network(tmp_path / "parts.tflite", refused=True)), "--checked", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["model"] == "parts.tflite, 3 operations from 0 to 2"
    assert told["measured"] == told["planned"]
    together = told["together"]
    assert [each["is_npu"] for each in together["steps"]] == [True, False, True]
    assert together["peak"] == together["steps"][together["step"]]["arena"]
    assert [each["name"] for each in together["tensors"]] == ["image", "c", "n", "d"]
    first, reason, other = done.stderr.splitlines()
    assert first == "parts.tflite: ethos_u runs 4 of 5 operations in 2 subgraphs"
    assert "operation 3 (L2_NORMALIZATION): got L2_NORMALIZATION" in reason
    assert other.startswith("parts.tflite, operation 4: ") and other.endswith(" cycles")


def test_what_vela_leaves_to_the_cpu_is_left_if_asked(tmp_path: Path) -> None:
    (edge,) = (each for each in EDGES if (each.operator, each.constraint) == ("MEAN", "reduced axis"))
    path = tmp_path / "mean.tflite"
    path.write_bytes(edge.build(edge.outside))
    assert nnhal("cascade", str(path), "--json").returncode == 0
    done = nnhal("cascade", str(path), "--like-vela", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "got a mean over an axis of 4097 elements, expected what Vela 5.2 reports" in done.stderr
    path.write_bytes(edge.build(edge.inside))
    assert nnhal("cascade", str(path), "--like-vela", "--json").returncode == 0


def test_a_page_and_a_listing_are_written(network: str, tmp_path: Path) -> None:
    page, listing = tmp_path / "page.html", tmp_path / "stream.txt"
    done = nnhal(
        *("cascade", network, "--sram", "1400"),
        *("--html", str(page), "--disassemble", str(listing)),
    )
    assert done.returncode == 0, done.stderr
    assert parsed(page.read_text()).all("title")[0].text == "network.tflite on u55-128"
    assert "image" in listing.read_text()


def test_what_is_wrong_is_said_in_a_sentence(network: str, tmp_path: Path) -> None:
    floats = str(write_network(tmp_path / "floats.tflite", np.float32))
    parts = str(write_network(tmp_path / "parts.tflite", refused=True))
    broken = tmp_path / "broken.toml"
    broken.write_text("accelerator = 'u55-128'\ncolour = 'blue'\n")
    cases = {
        ("cascade", floats): "floats.tflite: ethos_u runs 0 of 4 operations",
        ("cascade", network, "--sram", "much"): "'much' is no size",
        ("cascade", network, "--device", "u99"): "unknown system 'u99'",
        ("cascade", network, "--block-config", "big"): "got block 'big', expected ROWSxCOLUMNSxCHANNELS",
        ("cascade", network, "--cascade-region", "tcm"): "--cascade-region: got 'tcm', expected",
        ("cascade", network, "--always-copy-size", "much"): "'much' is no size",
        ("cascade", network, "--memory", str(broken)): "broken.toml",
        ("cascade", network, "--input", "rows"): "--input: got 'rows', expected resident or streamed",
        ("cascade", parts, "--input", "streamed"): "--input streamed: expected a network that the NPU runs whole",
        ("cascade", network, "--iterative-pooling"): "expected a pooling or a mean of whole channels",
        ("cascade", parts, "--iterative-pooling"): "--iterative-pooling: expected a network that the NPU runs whole",
        ("cascade", str(tmp_path / "none.tflite")): "No such file",
    }
    for arguments, expected in cases.items():
        done = nnhal(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("nnhal: ") and expected in done.stderr
