"""Networks of ONNX, which have their channels first, on devices that want them last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal_client import Framework, connect
from nnhal_client.explanation import Explanation
from nnhal_client.model import Model
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.onnx_cnns import FORMS, IMAGE, NETWORKS, quantised, worst_of
from tests.support.onnx_models import by_onnxruntime, random
from tests.support.processes import WARM
from tests.support.testbeds import framework_over, kill_for_good
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
NPUS = ("ethos_n", "ethos_u", "mlip")
TOLERANCE = 4 / 255
"""Four steps of 8 bits: each operation rounds in its own way, by a step at most."""
IN_ORDER = [(network, "uint8") for network in NETWORKS] + [("resnet", form) for form in FORMS if form != "uint8"]


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    with framework_over(*(DeviceEntry(driver=name) for name in (*NPUS, "cpu_acc", "cpu_ref"))) as session:
        yield session


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Each network, quantised in some way."""
    directory, made = tmp_path_factory.mktemp("networks"), {}
    for number, (network, form) in enumerate(IN_ORDER):
        made[network, form] = directory / f"{number}.onnx"
        onnx.save(quantised(NETWORKS[network](), **FORMS[form]), made[network, form])
    return made


def steps_on(explanation: Explanation, device: str) -> int:
    return sum(step.device == device for step in explanation.steps)


def outputs_of(model: Model, image: Array) -> list[Array]:
    return list(model.run({"x": image}).values())


def difference(model: Model, path: Path) -> float:
    """The largest difference from ONNX Runtime without optimisations over some images."""
    file = onnx.load(path)
    images = [random(*IMAGE, seed=seed) for seed in range(20, 23)]
    return max(worst_of(outputs_of(model, image), by_onnxruntime(file, {"x": image})) for image in images)


@pytest.mark.parametrize(("network", "form"), IN_ORDER)
def test_a_quantised_network_is_one_step_on_an_npu(
    framework: Framework, files: dict[tuple[str, str], Path], network: str, form: str
) -> None:
    model = framework.load(files[network, form], devices=("ethos_n", "cpu_ref"))
    told = model.explain()
    assert steps_on(told, "ethos_n") == 1
    left = {story.operation for story in told.operations if story.device != "ethos_n"}
    assert left <= {"QUANTIZE", "DEQUANTIZE", "TRANSPOSE", "RESHAPE", "CONCATENATION"}
    assert told.image_layout is not None
    assert told.image_layout.channels_last
    assert told.modelled_ns < told.image_layout.other_ns
    assert difference(model, files[network, form]) <= TOLERANCE


@pytest.mark.parametrize("network", ["resnet", "mobilenet", "flattened"])
def test_ethos_u_transposes_at_the_border_only(
    framework: Framework, files: dict[tuple[str, str], Path], network: str
) -> None:
    model = framework.load(files[network, "uint8"], devices=("ethos_u", "cpu_ref"))
    told = model.explain()
    assert [step.device for step in told.steps] == ["cpu_ref", "ethos_u", "cpu_ref"]
    assert told.steps[0].operations == 1
    assert [story.device for story in told.operations if story.operation == "TRANSPOSE"] == ["ethos_u"]
    assert difference(model, files[network, "uint8"]) <= TOLERANCE


def test_mlip_computes_the_same(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    model = framework.load(files["resnet", "symmetric"], devices=("mlip", "cpu_ref"))
    assert steps_on(model.explain(), "mlip") >= 1
    assert difference(model, files["resnet", "symmetric"]) <= TOLERANCE


def test_a_model_that_the_cpu_runs_keeps_its_layout(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    told = framework.load(files["resnet", "uint8"], devices=("ethos_n", "cpu_acc", "cpu_ref")).explain()
    assert {step.device for step in told.steps} == {"cpu_acc"}
    assert told.image_layout is not None
    assert not told.image_layout.channels_last
    assert not told.transpositions
    alone = framework.load(files["resnet", "uint8"], devices=("cpu_acc", "cpu_ref")).explain()
    assert alone.image_layout is None


def test_what_was_added_is_told_with_its_cost(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    told = framework.load(files["resnet", "uint8"], devices=("ethos_n", "cpu_ref")).explain()
    (added,) = told.transpositions
    assert (added.operation, added.nodes, added.number) == ("TRANSPOSE", (), None)
    assert added.modelled_ns > 0
    assert added.outputs[0] == f"{added.inputs[0]} (channels last)"
    assert told.pin_of(told.operations.index(added)) == ""


def numbered(told: Explanation, operation: str) -> int:
    return next(n for n in (o.number for o in told.operations if o.operation == operation) if n is not None)


def test_pins_are_by_the_numbers_of_the_model_in_the_file(
    framework: Framework, files: dict[tuple[str, str], Path]
) -> None:
    path, devices = files["resnet", "uint8"], ("ethos_n", "cpu_acc", "cpu_ref")
    number = numbered(framework.load(path, devices=devices).explain(), "MAX_POOL_2D")
    held = framework.load(path, devices=devices, pins={f"index:{number}": "ethos_n"}).explain()
    (pool,) = (story for story in held.operations if story.operation == "MAX_POOL_2D")
    assert (pool.device, pool.number, pool.pin) == ("ethos_n", number, f"index:{number}")
    assert held.image_layout is not None
    assert held.image_layout.channels_last
    assert "LAYOUT" in held.image_layout.other_reason
    assert sum(bool(story.pin) for story in held.operations) == 1


def test_a_pin_that_no_layout_can_keep_is_refused(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    with pytest.raises(NnhalError, match=r"QUANTIZE.*ethos_n: OP"):
        framework.load(files["resnet", "uint8"], devices=("ethos_n", "cpu_ref"), pins={"op:QUANTIZE": "ethos_n"})
    with pytest.raises(NnhalError, match="'index:999' matches no node"):
        framework.load(files["resnet", "uint8"], devices=("ethos_n", "cpu_ref"), pins={"index:999": "ethos_n"})


def test_the_cpu_alone_has_the_models_layout(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    told = framework.load(files["resnet", "uint8"], partitioner="cpu_only").explain()
    assert told.image_layout is None
    assert {step.device for step in told.steps} == {"cpu_ref"}


def test_by_nnapis_rule_the_npu_has_what_it_takes(framework: Framework, files: dict[tuple[str, str], Path]) -> None:
    path = files["resnet", "uint8"]
    model = framework.load(path, devices=("ethos_n", "cpu_ref"), partitioner="nnapi")
    assert steps_on(model.explain(), "ethos_n") == 1
    assert difference(model, path) <= TOLERANCE


def test_a_binding_goes_over_to_the_models_layout(short_path: Path, files: dict[tuple[str, str], Path]) -> None:
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in ("ethos_n", "cpu_ref")))
    image = random(*IMAGE, seed=20)
    (expected,) = by_onnxruntime(onnx.load(files["resnet", "uint8"]), {"x": image})
    with Testbed(topology, short_path, zygote=WARM) as bed, connect(bed.framework) as session:
        model = session.load(files["resnet", "uint8"])
        with model.bind() as binding:
            binding.inputs["x"][:] = image

            def check() -> None:
                (output,) = binding.outputs.values()
                output[:] = 0
                binding.run()
                assert worst_of([output], [expected]) <= TOLERANCE

            check()
            assert model.explain().transpositions
            kill_for_good(bed, "ethos_n")
            check()
            wait_until(lambda: not model.explain().transpositions, "the model is planned without the NPU")
            check()


def test_floats_which_no_npu_takes_keep_their_layout(framework: Framework, tmp_path: Path) -> None:
    onnx.save(NETWORKS["resnet"](), tmp_path / "floats.onnx")
    told = framework.load(tmp_path / "floats.onnx", devices=("ethos_n", "ethos_u", "cpu_acc", "cpu_ref")).explain()
    assert told.image_layout is None
