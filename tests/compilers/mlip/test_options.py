from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_devices.driver import DriverOptions
from nnhal_mlip.options import OPTIONS, read_options
from nnhal_mlip.timing.profile import read_profile


def test_without_options_it_has_all_tiles_and_goes_beyond_the_public_flow() -> None:
    options = read_options({})
    assert (options.tiles, options.profile) == (8, read_profile())
    assert not (options.pinned or options.public or options.checked)


def test_every_option_is_read() -> None:
    options = read_options({"tiles": "2", "wb_pin_ocm": "1", "public": "true", "checked": "true"})
    assert (options.tiles, options.pinned, options.public, options.checked) == (2, True, True, True)


def test_a_profile_is_a_file(tmp_path: Path) -> None:
    shipped = Path(read_profile.__code__.co_filename).parent / "profiles" / "cn106.toml"
    path = tmp_path / "fast.toml"
    path.write_text(shipped.read_text().replace("1_000_000_000", "2_000_000_000"))
    assert read_options({"profile": str(path)}).profile.clock_hz == 2 * read_profile().clock_hz


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tiles": "3"}, "option tiles: got '3', expected 1 or 2 or 4 or 8"),
        ({"tiles": "many"}, "option tiles: got 'many'"),
        ({"wb_pin_ocm": "yes"}, "option wb_pin_ocm: got 'yes', expected true or false or 1 or 0"),
        ({"public": ""}, "option public: got ''"),
        ({"profile": "/does/not/exist.toml"}, "option profile: /does/not/exist.toml cannot be read"),
    ],
)
def test_a_value_that_is_wrong_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_options(given)


def test_an_option_that_is_unknown_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=f"mlip has no option 'num_tiles', expected {', '.join(OPTIONS)}"):
        DriverOptions(extra={"num_tiles": "4"}).require_known("mlip", *OPTIONS)
