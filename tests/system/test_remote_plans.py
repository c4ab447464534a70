"""Plans over a device on another host: what explanations, runs, timelines and metrics say of the network."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_client import Framework, Model, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.command import nnhal
from tests.support.far_devices import far_device
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.scrape import Scrape

DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"
IMAGE_BYTES, RESULT_BYTES = 8 * 8 * 4, 10 * 4


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """The address of a cpu_ref that other hosts may use."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, far_device(Path(directory)) as served:
        yield served.address


@pytest.fixture(scope="module")
def testbed(far: str) -> Iterator[Testbed]:
    """A framework over that device and a cpu_ref of this host, which serves the digits as well."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        repository = Path(directory) / "models"
        (repository / "digits/1").mkdir(parents=True)
        copyfile(DIGITS, repository / "digits/1/model.onnx")
        devices = (
            DeviceEntry.model_validate({"name": "npu-7", "endpoint": f"tcp://{far}"}),
            DeviceEntry(driver="cpu_ref"),
        )
        ports: dict[str, int | str] = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
        bed = Testbed(
            Topology(device=devices, framework={**ports, "model_repository": str(repository)}),
            Path(directory) / "bed",
            zygote=WARM,
        )
        with controlled(bed):
            yield bed


@pytest.fixture(scope="module")
def framework(testbed: Testbed) -> Iterator[Framework]:
    with connect(testbed.framework) as session:
        yield session


@pytest.fixture
def split(framework: Framework) -> Iterator[Model]:
    """The digits with the convolutions here, and everything else on the other host."""
    model = framework.load(DIGITS, pins={"name:*": "npu-7", "op:CONV_2D": "cpu_ref"})
    yield model
    model.unload()


def address_of(testbed: Testbed, front: str) -> str:
    return dict(line.split(": ") for line in testbed.process("framework").describe().addresses)[front]


def _topology(address: str) -> str:
    return f'[[device]]\nname = "npu-7"\nendpoint = "tcp://{address}"\n\n[[device]]\ndriver = "cpu_ref"\n'


def image() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}


def test_a_network_keeps_a_model_here_and_says_what_it_would_cost_there(framework: Framework) -> None:
    """The device there is no faster than that here, so nothing is worth a round trip."""
    model = framework.load(DIGITS)
    explanation = model.explain()
    assert model.steps == ("cpu_ref",)
    assert (explanation.wire_ns, explanation.wire_up_bytes, explanation.wire_down_bytes) == (0, 0, 0)
    alone = {other.device: other for other in explanation.counterfactuals}
    assert 0 < alone["npu-7"].wire_ns < alone["npu-7"].modelled_ns
    assert alone["npu-7"].modelled_ns > alone["cpu_ref"].modelled_ns
    (link,) = [device.link for device in explanation.devices if device.link is not None]
    assert link.round_trip_ns > 0
    sent = (IMAGE_BYTES + RESULT_BYTES) * link.ns_per_byte
    assert alone["npu-7"].wire_ns == pytest.approx(link.round_trip_ns + sent)
    model.unload()


def test_a_run_sends_what_its_plan_says(split: Model) -> None:
    explanation = split.explain()
    assert set(split.steps) == {"npu-7", "cpu_ref"}
    _, report = split.run_with_report(image())
    planned = [(edge.value, edge.wire_up_bytes, edge.wire_down_bytes) for edge in explanation.edges]
    assert [(entry.value, entry.wire_up_bytes, entry.wire_down_bytes) for entry in report.ledger] == planned
    assert explanation.wire_up_bytes > 0
    assert explanation.wire_down_bytes >= RESULT_BYTES
    reported = [copy for step in report.steps for copy in step.copies if copy.is_wire]
    assert sum(copy.bytes for copy in reported if copy.is_output) == explanation.wire_down_bytes
    assert sum(copy.bytes for copy in reported if not copy.is_output) == explanation.wire_up_bytes


def test_devices_count_what_they_send(testbed: Testbed, framework: Framework) -> None:
    def counted() -> dict[str, float]:
        with urllib.request.urlopen(f"http://{address_of(testbed, 'metrics')}/metrics") as answer:
            scrape = Scrape(answer.read())
        assert scrape.of("nnhal_wire_bytes", {"device": "cpu_ref"}, direction="up") == 0
        return {way: scrape.of("nnhal_wire_bytes", {"device": "npu-7"}, direction=way) for way in ("up", "down")}

    before = counted()
    model = framework.load(DIGITS, devices=["npu-7"])
    for _ in range(3):
        model.run(image())
    model.unload()
    after = counted()
    assert {way: after[way] - before[way] for way in after} == {"up": 3 * IMAGE_BYTES, "down": 3 * RESULT_BYTES}


def test_the_command_tells_of_the_link(testbed: Testbed) -> None:
    told = nnhal("devices", "npu-7", "--directory", str(testbed.directory))
    assert told.returncode == 0, told.stderr
    assert "on another host: a round trip takes" in told.stdout
    assert "MB/s" in told.stdout
    known = nnhal("devices", "cpu_ref", "--directory", str(testbed.directory))
    assert "another host" not in known.stdout


def test_explain_marks_what_goes_over_the_wire_and_shows_it_in_a_timeline(far: str, tmp_path: Path) -> None:
    topology = tmp_path / "testbed.toml"
    topology.write_text(_topology(far))
    pins = ["--pin", "name:*=npu-7", "--pin", "op:CONV_2D=cpu_ref"]
    trace, page = tmp_path / "trace.json", tmp_path / "plan.html"
    files = ["--trace", str(trace), "--html", str(page)]
    done = nnhal("explain", str(DIGITS), "--topology", str(topology), *pins, "--runs", "1", "--all", *files)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    for expected in (
        "wire: ",
        "down a run, ",
        "down the wire",
        "all on npu-7 would be ",
        "on the wire",
        "on another host",
    ):
        assert expected in told
    assert "On another host: a round trip takes" in page.read_text()
    spans = {event["name"].split()[0] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert spans >= {"run", "step", "up", "down"}


def test_a_model_goes_to_a_faster_device_on_another_host_if_the_network_is_fast_enough(tmp_path: Path) -> None:
    """A convolution of 460 million multiplications takes cpu_ref far longer than its values take on their way."""
    weights = np.zeros((256, 256, 3, 3), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    model, topology = tmp_path / "convolution.onnx", tmp_path / "testbed.toml"
    onnx.save(onnx_model(nodes, {"x": [1, 256, 28, 28]}, ["y"], {"w": weights}), model)
    with far_device(tmp_path, driver="cpu_acc") as served:
        topology.write_text(_topology(served.address))
        done = nnhal("explain", str(model), "--topology", str(topology), "--runs", "0", "--json")
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert [step["device"] for step in story["steps"]] == ["npu-7"]
    size = 256 * 28 * 28 * 4
    assert [(edge["wire_up_bytes"], edge["wire_down_bytes"]) for edge in story["edges"]] == [(size, 0), (0, size)]
    assert 0 < story["wire_ns"] < story["modelled_ns"]


def test_an_answer_of_the_protocol_says_how_many_bytes_went_over_the_wire(testbed: Testbed) -> None:
    pinned = nnhal(
        "models", "plan", "digits", "--pin", "name:*=npu-7", "--apply", "--directory", str(testbed.directory)
    )
    assert pinned.returncode == 0, pinned.stderr
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0.0] * 64}
    url = f"http://{address_of(testbed, 'http')}/v2/models/digits/infer"
    with urllib.request.urlopen(url, json.dumps({"inputs": [tensor]}).encode()) as answer:
        parameters = json.load(answer)["parameters"]
    assert parameters["nnhal_bytes_on_wire"] == IMAGE_BYTES + RESULT_BYTES
    assert "npu-7" in parameters["nnhal_devices"]
