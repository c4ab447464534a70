from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal.operations.operand_types import Q8AS
from nnhal.support import Supported
from nnhal_devices.driver import DriverOptions
from nnhal_devices.ethos_u.driver import EthosU
from nnhal_devices.ethos_u.options import read_options
from tests.support.ethos_u import examples

MEMORY = """
accelerator = "u55-64"
clock_hz = 400_000_000

[[region]]
name = "sram"
size = "256KiB"
bandwidth = 8.0
read_latency = 32
write_latency = 32
burst = 32
holds = ["activations"]

[[region]]
name = "flash"
size = "4MiB"
bandwidth = 1.0
read_latency = 64
write_latency = 64
burst = 128
holds = ["constants"]
"""


def test_without_options_it_is_a_u55_of_128_with_all_of_its_memory() -> None:
    options = read_options({})
    assert options.system.accelerator.name == "u55-128"
    assert options.sram == options.system.working.size
    assert not options.checked


def test_an_accelerator_and_a_size() -> None:
    options = read_options({"accelerator": "u55-256", "sram": "240KiB", "checked": "true"})
    assert (options.system.accelerator.name, options.sram, options.checked) == ("u55-256", 245_760, True)
    assert not options.like_vela


def test_what_is_beyond_velas_report_is_left_to_others_if_asked() -> None:
    model = examples(Q8AS)["DEPTH_TO_SPACE"]
    for given, taken in (("false", True), ("true", False)):
        (answer,) = EthosU(DriverOptions(extra={"like_vela": given})).supported_operations(model)
        assert isinstance(answer, Supported) == taken


def test_a_memory_file(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(MEMORY)
    options = read_options({"memory": str(path)})
    assert options.system.accelerator.name == "u55-64"
    assert (options.system.clock_hz, options.sram) == (400_000_000, 262_144)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"accelerator": "u85"}, "option accelerator: got 'u85', expected one of u55-32, u55-64"),
        ({"sram": "much"}, "option sram: 'much' is no size"),
        ({"sram": "64GiB"}, "option sram: got 68719476736 bytes, expected at most the"),
        ({"checked": "yes"}, "option checked: got 'yes', expected true or false"),
        ({"input": "rows"}, "option input: got 'rows', expected resident or streamed"),
        ({"accelerator": "u55-32", "memory": "x"}, "options accelerator and memory: got both, expected one"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_options(given)


def test_a_memory_file_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(MEMORY.replace("clock_hz", "clock"))
    with pytest.raises(ValueError, match=rf"option memory: {re.escape(str(path))}: clock_hz is missing"):
        read_options({"memory": str(path)})
    with pytest.raises(OSError, match="No such file"):
        read_options({"memory": str(tmp_path / "none.toml")})
