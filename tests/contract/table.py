"""The rows of the HAL's contract, read from the files in ``rows``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROWS = Path(__file__).parent / "rows"

_ID = re.compile(r"([A-Z]{2})-(\d{2})")


class ContractError(Exception):
    """The table is wrong, or a test that names one of its rows."""


@dataclass(frozen=True)
class Row:
    """A behaviour that the contract requires, and the reason if it cannot apply to nnhal."""

    id: str
    family: str
    behaviour: str
    not_applicable: str | None = None


@dataclass(frozen=True)
class Family:
    """The rows of one subject, numbered from 1."""

    code: str
    title: str
    rows: tuple[Row, ...]


def read_table(folder: Path = ROWS) -> tuple[Family, ...]:
    """Return the families of a folder, each from the file that is named after its code.

    Raises ContractError if a file does not have the form that docs/reference/contract.md describes.
    """
    families = tuple(_read_family(path) for path in sorted(folder.glob("*.toml")))
    if not families:
        raise ContractError(f"{folder} has no rows: expected one TOML file for each family")
    return families


def _read_family(path: Path) -> Family:
    code = path.stem.upper()
    if path.stem != code.lower():
        raise ContractError(f"{path} is not in lower case, and so may be a second file of {code}")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ContractError(f"{path}: {error}") from error
    title = content.pop("title", None)
    if not isinstance(title, str) or not title:
        raise ContractError(f"{path} has no title")
    behaviours = _texts(path, "rows", content.pop("rows", {}))
    reasons = _texts(path, "not_applicable", content.pop("not_applicable", {}))
    if content:
        raise ContractError(f"{path} has {', '.join(content)}: expected title, rows and not_applicable only")
    _check_ids(path, code, list(behaviours))
    if unknown := sorted(reasons.keys() - behaviours.keys()):
        raise ContractError(f"{path}: {', '.join(unknown)} cannot apply but is no row of the file")
    rows = tuple(Row(id_, code, behaviour, reasons.get(id_)) for id_, behaviour in behaviours.items())
    return Family(code, title, rows)


def _texts(path: Path, name: str, section: object) -> dict[str, str]:
    if not isinstance(section, dict):
        raise ContractError(f"{path}: {name} is no table")
    for key, text in section.items():
        if not isinstance(text, str) or not text.strip():
            raise ContractError(f"{path}: {key} in {name} says nothing: got {text!r}, expected a sentence")
    return section


def _check_ids(path: Path, code: str, ids: list[str]) -> None:
    if not ids:
        raise ContractError(f"{path} has no rows")
    for number, id_ in enumerate(ids, 1):
        form = _ID.fullmatch(id_)
        if form is None:
            raise ContractError(f"{path}: {id_!r} is no id of a row: expected two capitals, a hyphen, two digits")
        if form[1] != code or int(form[2]) != number:
            raise ContractError(f"{path} has {id_}, expected {code}-{number:02}")
