"""Systems as TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_cascade.hardware.accelerators import ACCELERATORS
from nnhal_cascade.hardware.memory import Content
from nnhal_cascade.hardware.memory_file import parse_size, read_system, system_for, system_names

GOOD = """
accelerator = "u55-64"
clock_hz = 300_000_000

[[region]]
name = "sram"
size = "256KiB"
bandwidth = 8
read_latency = 32
write_latency = 30
burst = 32
holds = ["activations", "constants"]

[[region]]
name = "psram"
size = 8388608
bandwidth = 0.5
read_latency = 200
write_latency = 100
burst = 64
holds = ["activations"]

[[region]]
name = "flash"
size = "16MiB"
bandwidth = 1.0
read_latency = 64
write_latency = 0
burst = 128
holds = ["constants"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "board.toml"
    path.write_text(text)
    return path


def test_a_file_says_the_accelerator_the_clock_and_the_regions(tmp_path: Path) -> None:
    system = read_system(written(tmp_path, GOOD))
    assert (system.name, system.accelerator.name, system.clock_hz) == ("board", "u55-64", 300_000_000)
    assert [region.name for region in system.regions] == ["sram", "psram", "flash"]
    sram = system.region("sram")
    assert (sram.size, sram.bandwidth, sram.read_latency, sram.write_latency, sram.burst) == (262144, 8.0, 32, 30, 32)
    assert sram.holds == {Content.ACTIVATIONS, Content.CONSTANTS}


def test_the_order_of_the_regions_says_what_each_is_for(tmp_path: Path) -> None:
    system = read_system(written(tmp_path, GOOD))
    assert system.working.name == "sram"
    assert system.constants.name == "flash"
    assert system.spill is not None
    assert system.spill.name == "psram"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('accelerator = "u55-64"\n', "", r"accelerator is missing, expected one of u55-32"),
        ('"u55-64"', '"u85-256"', r"accelerator is 'u85-256', expected one of u55-32"),
        ('"u55-64"', "64", r"accelerator is 64, expected one of u55-32"),
        ("300_000_000", "0", r"clock_hz is 0, expected a whole number of at least 1"),
        ("300_000_000", "true", r"clock_hz is True, expected a whole number of at least 1"),
        ("clock_hz", "clock", r"clock_hz is missing"),
        ("burst = 64", "burst = 64\ncolour = 1", r"region\[1\]\.colour is an unknown key, expected name, size"),
        (
            "accelerator",
            "voltage = 1\naccelerator",
            r"voltage is an unknown key, expected accelerator, clo",
        ),
        ('"256KiB"', '"0KiB"', r"region\[0\]\.size '0KiB' is no size: it is 0 bytes"),
        ('"256KiB"', "0", r"region\[0\]\.size is 0, expected a size such as"),
        ('"256KiB"', '"lots"', r"region\[0\]\.size 'lots' is no size: expected a number"),
        ("8388608", "[]", r"region\[1\]\.size is \[\], expected a size such as"),
        (
            "bandwidth = 0.5",
            "bandwidth = -0.5",
            r"region\[1\]\.bandwidth is -0\.5, expected bytes a cycle",
        ),
        ("bandwidth = 0.5", "bandwidth = nan", r"region\[1\]\.bandwidth is nan"),
        ("bandwidth = 0.5", 'bandwidth = "0.5"', r"region\[1\]\.bandwidth is '0\.5'"),
        (
            "read_latency = 200",
            "read_latency = -1",
            r"region\[1\]\.read_latency is -1, expected a whole number",
        ),
        ("burst = 64", "burst = 0", r"region\[1\]\.burst is 0, expected a whole number of bytes, at least 1"),
        ("burst = 64\n", "", r"region\[1\]\.burst is missing"),
        ('"psram"', '""', r"region\[1\]\.name is '', expected a name"),
        ('"psram"', '"sram"', r"region\[1\]\.name is 'sram' again"),
        ('"psram"', "7", r"region\[1\]\.name is 7, expected a name"),
        (
            ', "constants"]',
            ', "weights"]',
            r"region\[0\]\.holds is .*'weights'\], expected a list of activations",
        ),
        ('["activations", "constants"]', "[]", r"region\[0\]\.holds is \[\], expected a list"),
        ('["activations", "constants"]', '[["activations"]]', r"region\[0\]\.holds is "),
        ("[[region]]", "[[regions]]", r"region is missing, expected tables"),
        ("clock_hz", "region = 3\nclock_hz", r"Cannot|Expected|at line"),
        ("= 64\n", "= \n", "Invalid value"),
    ],
)
def test_bad_files_are_refused_with_the_key_and_what_was_expected(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ValueError, match=sentence) as refusal:
        read_system(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("content", Content)
def test_something_holds_activations_and_something_constants(tmp_path: Path, content: Content) -> None:
    other = next(each for each in Content if each is not content)
    path = written(tmp_path, GOOD.replace(f'"{content.value}"', f'"{other.value}"'))
    with pytest.raises(ValueError, match=f"region has none that holds {content.value}, expected at least one"):
        read_system(path)


def test_constants_do_not_lie_at_rest_in_the_working_memory(tmp_path: Path) -> None:
    alone = GOOD[: GOOD.index("[[region]]", GOOD.index("[[region]]") + 1)]
    sentence = "region has constants at rest in sram, which is the working memory; expected another one"
    with pytest.raises(ValueError, match=sentence):
        read_system(written(tmp_path, alone))


def test_regions_are_tables(tmp_path: Path) -> None:
    path = written(tmp_path, 'accelerator = "u55-64"\nclock_hz = 1\nregion = 3\n')
    with pytest.raises(ValueError, match=r"region is 3, expected tables \[\[region\]\]"):
        read_system(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"board\.toml: got no UTF-8"):
        read_system(path)


@pytest.mark.parametrize("name", system_names())
def test_shipped_systems_have_their_name_and_their_accelerator(name: str) -> None:
    system = system_for(name)
    assert system.name == name
    assert name.startswith(system.accelerator.name)
    assert system.working != system.constants


@pytest.mark.parametrize("name", ACCELERATORS)
def test_each_accelerator_has_a_system_of_its_own_name(name: str) -> None:
    assert name in system_names()


@pytest.mark.parametrize(
    ("name", "clock", "working", "constants"),
    [
        ("u55-128", 500_000_000, 8.0, 1.0),
        ("u55-256-deep-embedded", 200_000_000, 8.0, 0.5),
        ("u65-256", 1_000_000_000, 16.0, 12.0),
        ("u65-512-high-end", 1_000_000_000, 16.0, 3.75),
        ("u65-256-mid-end", 500_000_000, 16.0, 7.5),
        ("u65-256-embedded", 500_000_000, 16.0, 1.0),
    ],
)
def test_shipped_systems_have_the_published_bandwidths(name: str, clock: int, working: float, constants: float) -> None:
    system = system_for(name)
    assert (system.clock_hz, system.working.bandwidth, system.constants.bandwidth) == (clock, working, constants)


def test_only_systems_with_dram_spill() -> None:
    assert system_for("u55-128").spill is None
    spill = system_for("u65-256").spill
    assert spill is not None
    assert spill.name == "dram"


def test_an_unknown_system_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ValueError, match=r"unknown system 'u55-128-client-server': expected one of u55-32, "):
        system_for("u55-128-client-server")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("240128", 240128),
        ("240KiB", 245760),
        (" 1.5 MiB ", 1572864),
        ("500 kB", 500000),
        ("2MB", 2000000),
        ("1GiB", 1073741824),
        ("17 B", 17),
        ("17 bytes", 17),
        ("0.5KiB", 512),
    ],
)
def test_a_size_has_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "KiB", "-1KiB", "1,5MiB", "240KB", "240 kib", "1e3", "nan", "\uff11KiB"])
def test_what_is_no_size_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size: expected a number .*KiB") as refusal:
        parse_size(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["0", "0KiB", "0.3", "0.0001KiB"])
def test_a_size_is_of_whole_bytes_and_not_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number of at least 1"):
        parse_size(text)
