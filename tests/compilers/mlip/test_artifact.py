from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.operations.operand_types import F16
from nnhal.resolved import ResolvedModel
from nnhal_mlip.artifact import fingerprint, read_artifact, write_artifact
from nnhal_mlip.compilation import FED, CompiledModel, CompiledStep, ValuePlace
from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_hal import mlip_examples

ORIGIN = bytes(range(32))
OPTIONS = MlipOptions(read_profile())
STEPS = (
    CompiledStep(b"first", (ValuePlace(FED, 1),), (TileMemoryRange(3, 0, 128, 0, 2, 0, 1, "value a", False),)),
    CompiledStep(b"", (ValuePlace(0, 0), ValuePlace(FED, 0))),
    CompiledStep(b"the third", (ValuePlace(1, 0),)),
)
COMPILED = CompiledModel(STEPS, (ValuePlace(2, 1), ValuePlace(FED, 0)), ORIGIN)


def test_what_was_written_is_read() -> None:
    assert read_artifact(write_artifact(COMPILED), ORIGIN) == COMPILED


def test_what_was_made_of_something_else_is_not_read() -> None:
    assert read_artifact(write_artifact(COMPILED), bytes(32)) is None


def test_what_was_cut_off_or_is_too_long_is_not_read() -> None:
    whole = write_artifact(COMPILED)
    for end in range(len(whole)):
        assert read_artifact(whole[:end], ORIGIN) is None
    assert read_artifact(whole + b"\0", ORIGIN) is None


@pytest.mark.parametrize(
    "place", [ValuePlace(1, 0), ValuePlace(-2, 0), ValuePlace(0, -1)], ids=["later", "nowhere", "port"]
)
def test_a_value_of_no_earlier_step_is_not_read(place: ValuePlace) -> None:
    steps = (STEPS[0], replace(STEPS[1], inputs=(place,)))
    assert read_artifact(write_artifact(CompiledModel(steps, (), ORIGIN)), ORIGIN) is None


@pytest.mark.parametrize(
    "held",
    [
        TileMemoryRange(-1, 0, 128, 0, 2, 0, 1, "value a", False),
        TileMemoryRange(0, 0, 128, 0, 2, 0, 1, 7, False),  # type: ignore[arg-type]
    ],
    ids=["no tile", "no text"],
)
def test_a_memory_map_that_makes_no_sense_is_not_read(held: TileMemoryRange) -> None:
    steps = (replace(STEPS[0], memory=(held,)),)
    assert read_artifact(write_artifact(CompiledModel(steps, (), ORIGIN)), ORIGIN) is None


def test_only_damage_of_a_binary_is_left_to_who_loads_it() -> None:
    whole = write_artifact(COMPILED)
    binaries = sum(len(step.binary) for step in STEPS)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        assert (read_artifact(bytes(damaged), ORIGIN) is None) == (position < len(whole) - binaries)


def model(name: str) -> ResolvedModel:
    return mlip_examples(F16)[name]


def test_a_fingerprint_is_of_the_model_and_the_choices() -> None:
    names = ["CONV_2D SAME", "CONV_2D with RELU6", "RELU", "RELU6"]
    found = [fingerprint(model(name), OPTIONS) for name in names]
    found += [
        fingerprint(model("RELU"), replace(OPTIONS, tiles=4)),
        fingerprint(model("RELU"), replace(OPTIONS, pinned=True)),
        fingerprint(model("RELU"), replace(OPTIONS, profile=replace(read_profile(), ddr_bytes=64))),
        fingerprint(model("RELU"), replace(OPTIONS, public=True)),
    ]
    assert len(set(found)) == len(found)


def test_a_fingerprint_covers_the_values_of_constants() -> None:
    given = model("CONV_2D SAME")
    values = dict(given.constants[0])
    values[1] = values[1] + 1
    changed = ResolvedModel(given.model, (values,), given.names)
    assert fingerprint(changed, OPTIONS) != fingerprint(given, OPTIONS)


def test_names_do_not_matter() -> None:
    given = model("CONV_2D SAME")
    named = ResolvedModel(given.model, given.constants, {0: "image"})
    assert fingerprint(named, OPTIONS) == fingerprint(given, OPTIONS)


@pytest.mark.parametrize("text", ['{"steps": [{"bytes": 1e400, "inputs": []}]}', "[" * 100_000, "5", "{}"])
def test_a_text_that_nobody_wrote_is_not_read(text: str) -> None:
    whole = write_artifact(CompiledModel((), (), ORIGIN))
    header = whole[: whole.index(ORIGIN) + len(ORIGIN)]
    assert read_artifact(header + len(text).to_bytes(8, "little") + text.encode(), ORIGIN) is None
