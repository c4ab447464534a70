"""The options of the target, as ``partition_for_mrvl`` of TVM 0.19 takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_mlip.program.program import TILE_COUNTS

_VALUES: Mapping[str, Mapping[str, str]] = {
    "arch": {"mlip": "mlip", "MLIP": "mlip"},
    "quantize": {"fp16": "fp16", "float16": "fp16", "int8": "int8"},
    "wb_pin_ocm": {"0": "0", "1": "1"},
    "num_tiles": {str(count): str(count) for count in TILE_COUNTS},
}
"""The options of ``mattr``, their values, and what each value stands for."""
_MODES = ("sim", "hw")
_PARTS = ("cn10ka", "cnf10kb")


@dataclass(frozen=True, slots=True)
class MlipTargetOptions:
    """Options of the target."""

    arch: str = "mlip"
    quantize: str = "fp16"
    """The arithmetic: fp16 or int8."""
    wb_pin_ocm: bool = False
    """True if weights and biases are put into on-chip memory when the model is loaded."""
    num_tiles: int = 8
    """At most so many tiles compute: 1, 2, 4 or 8."""
    mode: str = "sim"
    """sim or hw"""
    mcpu: str = "cn10ka"
    """The part: cn10ka or cnf10kb."""


def parse_options(mattr: str = "", mcpu: str = "cn10ka", num_tiles: int | None = None) -> MlipTargetOptions:
    """Return what options say.

    ``mattr`` has options as ``-num_tiles=4 -quantize=fp16`` or ``num_tiles=4,quantize=fp16``, and the words ``sim`` and
    ``hw``; ``sim`` wins if both are there. What is not named has its default.

    Raises:
        ValueError: an option is unknown, has a value that it cannot have, or two values. The sentence lists the known.
    """
    given: dict[str, str] = {}
    modes = set()
    for word in re.split(r"[,\s]+", mattr.strip()):
        bare = re.sub(r"^--?(?=[A-Za-z])", "", word)
        if bare in _MODES:
            modes.add(bare)
        elif word:
            _take(given, *_option(bare, word))
    if num_tiles is not None:
        _take(given, "num_tiles", _value("num_tiles", str(num_tiles)))
    if mcpu not in _PARTS:
        raise ValueError(f"option mcpu: got {mcpu!r}, expected one of {', '.join(_PARTS)}")
    defaults = MlipTargetOptions()
    return MlipTargetOptions(
        arch=given.get("arch", defaults.arch),
        quantize=given.get("quantize", defaults.quantize),
        wb_pin_ocm=given.get("wb_pin_ocm") == "1",
        num_tiles=int(given.get("num_tiles", defaults.num_tiles)),
        mode="hw" if modes == {"hw"} else "sim",
        mcpu=mcpu,
    )


def check_target(target: str) -> None:
    """Raise ValueError for a target that is not ``mrvl, llvm``: the accelerator, and what compiles the rest."""
    words = [word.strip() for word in target.split(",")]
    if words not in (["mrvl", "llvm"], ["mrvl"]):
        raise ValueError(f"option target: got {target!r}, expected 'mrvl, llvm', or 'mrvl' alone")


def _option(bare: str, word: str) -> tuple[str, str]:
    name, equals, value = bare.partition("=")
    if name not in _VALUES:
        raise ValueError(f"got option {word!r}, expected one of {', '.join((*_VALUES, *_MODES))}")
    if not equals:
        raise ValueError(f"option {name}: got no value, expected {name}={'|'.join(_VALUES[name])}")
    return name, _value(name, value)


def _value(name: str, value: str) -> str:
    if value not in _VALUES[name]:
        raise ValueError(f"option {name}: got {value!r}, expected one of {', '.join(_VALUES[name])}")
    return _VALUES[name][value]


def _take(given: dict[str, str], name: str, value: str) -> None:
    if given.setdefault(name, value) != value:
        raise ValueError(f"option {name}: got {given[name]} and {value}, expected one of them")
