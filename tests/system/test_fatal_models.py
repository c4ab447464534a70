"""A model that kills the process of a device is given to its driver once, and costs its neighbours nothing later."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote.admin import FrameworkAdmin
from nnhal_client import Framework, Model, connect
from nnhal_hosting.restarted_process import DIED
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.watched import WatchedProcess
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.onnx_models import onnx_model
from tests.support.waiting import wait_until

ACME = "Acme"
KINDS = ("Floor", "Relu", "Sigmoid", "Tanh")
X = np.linspace(-1, 1, 4, dtype=np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fatal")
    for kind in KINDS:
        model = onnx_model([helper.make_node(kind, ["x"], ["y"])], {"x": [4]}, ["y"])
        (folder / f"{kind}.onnx").write_bytes(model.SerializeToString())
    return {kind: folder / f"{kind}.onnx" for kind in KINDS}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A driver that dies when asked about FLOOR, while it prepares LOGISTIC and when it runs TANH; a framework with a
    cache.
    """
    folder = tmp_path_factory.mktemp("drivers")
    write_faulty_driver(folder, ACME, crashing="LOGISTIC", falling="TANH", asked="FLOOR")
    devices = (DeviceEntry(driver=ACME), DeviceEntry(driver="cpu_ref"))
    topology = Topology(device=devices, framework={"cache_directory": str(folder / "cache")})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        patch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(folder))
        with Testbed(topology, Path(directory)) as testbed:
            yield testbed


def deaths(bed: Testbed) -> int:
    """Return how often the device has died; it serves when this returns."""
    device = bed.process(ACME)
    assert isinstance(device, WatchedProcess)
    wait_until(lambda: device.is_running, "it serves")
    return sum(event.kind == DIED for event in bed.journal.after(0) if event.subject == ACME)


def loaded(session: Framework, path: Path) -> Model:
    return session.load(path, devices=[ACME, "cpu_ref"], pins={"name:*": ACME})


def run(model: Model, direct: bool = False) -> list[float]:
    with model.bind(direct=direct) as binding:
        binding.inputs["x"][:] = X
        binding.run()
        return [float(value) for value in binding.outputs["y"]]


@pytest.mark.parametrize(("kind", "what"), [("Sigmoid", "prepared"), ("Floor", "was asked about")])
def test_a_driver_is_not_given_again_what_it_died_of(
    bed: Testbed, files: dict[str, Path], kind: str, what: str
) -> None:
    with connect(bed.framework) as session:
        neighbour = loaded(session, files["Relu"])
        before = deaths(bed)
        for _ in range(2):  # the first is its death, the second is refused
            with pytest.raises(HalError, match=f"Acme was killed by SIGSEGV at .* while it {what} the"):
                session.load(files[kind], devices=[ACME])
            assert deaths(bed) == before + 1
        model = session.load(files[kind])
        assert model.steps == ("cpu_ref",)
        assert run(model) == pytest.approx(np.floor(X) if kind == "Floor" else 1 / (1 + np.exp(-X)))
        assert run(neighbour) == pytest.approx(np.maximum(X, 0))
        assert deaths(bed) == before + 1
    with FrameworkAdmin(Endpoint(bed.framework, "framework"), bed.admin_key) as admin:
        told = [event.text for event in admin.framework().events if event.subject == ACME]
    assert any("it is not given the model again" in text for text in told)


def test_it_is_remembered_by_the_next_framework_and_forgotten_on_request(bed: Testbed, files: dict[str, Path]) -> None:
    with connect(bed.framework) as session, pytest.raises(HalError):
        session.load(files["Sigmoid"], devices=[ACME])
    before = deaths(bed)
    framework = bed.process("framework")
    framework.stop()
    framework.start()
    with connect(bed.framework) as session:
        with pytest.raises(HalError, match="was killed by SIGSEGV"):
            session.load(files["Sigmoid"], devices=[ACME])
        assert deaths(bed) == before
        with FrameworkAdmin(Endpoint(bed.framework, "framework"), bed.admin_key) as admin:
            admin.drain_device(ACME, True)
            admin.drain_device(ACME, False)
        with pytest.raises(HalError):
            session.load(files["Sigmoid"], devices=[ACME])
        assert deaths(bed) == before + 1


def test_the_death_of_a_first_run_counts_too(bed: Testbed, files: dict[str, Path]) -> None:
    with connect(bed.framework) as session:
        before = deaths(bed)
        model = loaded(session, files["Tanh"])
        assert run(model) == pytest.approx(np.tanh(X))
        assert deaths(bed) == before + 1
        with pytest.raises(HalError, match=r"Acme was killed by SIGABRT at .* while it ran the model"):
            session.load(files["Tanh"], devices=[ACME])
        assert run(model) == pytest.approx(np.tanh(X))
        assert deaths(bed) == before + 1
