from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from nnhal_mlip.program.program import TensorType
from nnhal_mlip.timing import profile as profile_module
from nnhal_mlip.timing.profile import ProfileError, TimingProfile, profile_names, read_profile

SHIPPED = (Path(profile_module.__file__).parent / "profiles" / "cn106.toml").read_text()


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_the_shipped_profile_is_consistent_in_itself() -> None:
    profile = read_profile()
    assert profile_names() == ("cn106",)
    assert (profile.macs(TensorType.FP16), profile.macs(TensorType.INT8)) == (256, 1024)
    for element_type, size in ((TensorType.FP16, 2), (TensorType.INT8, 1)):
        operands = (profile.array_positions + profile.array_channels) * profile.products(element_type) * size
        assert operands <= profile.read_bytes


def test_every_figure_of_the_shipped_profile_says_that_it_is_a_guess() -> None:
    lines = [line for line in SHIPPED.splitlines() if line.partition("#")[0].strip()]
    assert len(lines) == len(fields(TimingProfile)) - 1
    assert all("guess" in line.partition("#")[2] for line in lines)


def test_a_file_of_the_user_replaces_it(tmp_path: Path) -> None:
    path = written(tmp_path, SHIPPED.replace("ddr_bytes = 32", "ddr_bytes = 64"))
    assert (read_profile(path).ddr_bytes, read_profile(path).name) == (64, "mine")
    assert read_profile(str(path)) == read_profile(path)


def test_cycles_are_time_by_the_clock(tmp_path: Path) -> None:
    path = written(tmp_path, SHIPPED.replace("clock_hz = 1_000_000_000", "clock_hz = 500_000_000"))
    assert read_profile(path).nanoseconds(1000) == 2000


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("ddr_bytes = 32", "ddr_byte = 32", r"mine\.toml: ddr_byte is an unknown key, expected clock_hz, array_pos"),
        ("ddr_bytes = 32", "", "ddr_bytes is missing, expected a whole number from 1 to"),
        ("ddr_bytes = 32", "ddr_bytes = 0", "ddr_bytes is 0, expected a whole number from 1"),
        ("issue_cycles = 64", "issue_cycles = -1", "issue_cycles is -1, expected a whole number from 0"),
        ("ddr_bytes = 32", "ddr_bytes = 32.5", "ddr_bytes is 32.5, expected a whole number"),
        ("ddr_bytes = 32", "ddr_bytes = true", "ddr_bytes is True, expected a whole number"),
        ("ddr_bytes = 32", 'ddr_bytes = "32"', "ddr_bytes is '32', expected a whole number"),
        ("ddr_bytes = 32", "ddr_bytes = inf", "ddr_bytes is inf, expected a whole number"),
        ("ddr_bytes = 32", "ddr_bytes = 10_000_000_000_000", "expected a whole number from 1 to 1000000000000"),
        ("ddr_bytes = 32", "ddr_bytes", "mine.toml: Expected"),
        ("ddr_bytes = 32", "[ddr]\nbytes = 32", "ddr is an unknown key"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_profile(written(tmp_path, SHIPPED.replace(old, new)))


def test_a_profile_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ProfileError, match=r"cn98 cannot be read: No such file.*expected a file, or one of cn106"):
        read_profile("cn98")
