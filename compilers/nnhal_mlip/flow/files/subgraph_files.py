"""The two files of a subgraph: together, checked, written and read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from nnhal.given_files import MOST_MODEL_BYTES, parse_json, read_given_text
from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.constants_file import ConstantsFile
from nnhal_mlip.flow.files.extension import check_scales
from nnhal_mlip.flow.files.kernel_attributes import ConstantObject
from nnhal_mlip.flow.files.node_checks import check_nodes, place
from nnhal_mlip.flow.files.nodes_file import KernelNode, NodesFile
from nnhal_mlip.flow.files.shape_checks import check_shapes

_File = TypeVar("_File", bound=BaseModel)
_MOST_ERRORS = 5
_MOST_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class SubgraphFiles:
    """Files of a subgraph for the compiler."""

    nodes: NodesFile
    constants: ConstantsFile

    def check(self) -> None:
        """Raise FlowFilesError, with the user's name of the layer, if the files contradict themselves or each other."""
        check_nodes(self.nodes)
        check_constants(self.nodes, self.constants)
        check_shapes(self.nodes, self.constants)

    def write(self, directory: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write ``<symbol>-nodes.json`` and ``<symbol>-consts.json`` into a directory that exists; return their paths.

        A file is there whole or not at all, the constants first. Equal files are equal bytes. Raises OSError.
        """
        folder = Path(directory)
        nodes, constants = folder / f"{self.nodes.symbol}-nodes.json", folder / f"{self.nodes.symbol}-consts.json"
        entries = self.constants.entries.items()
        _replace(constants, _members((name, entry.model_dump(mode="json")) for name, entry in entries))
        _replace(nodes, [to_text(self.nodes.model_dump(mode="json"))])
        return nodes, constants


def read_files(nodes: str | os.PathLike[str], constants: str | os.PathLike[str]) -> SubgraphFiles:
    """Read and check the files of a subgraph, upstream's too.

    Raises:
        OSError: a file cannot be read.
        FlowFilesError: they do not describe a subgraph; the sentence says which file, which node or constant and what.
    """
    files = SubgraphFiles(_read(Path(nodes), NodesFile), _read(Path(constants), ConstantsFile))
    try:
        files.check()
    except FlowFilesError as error:
        raise FlowFilesError(f"{os.fspath(nodes)}: {error}") from error
    return files


def _members(members: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield what ``to_text`` returns of an object, member by member: all constants together are large."""
    before = "{"
    for key, value in members:
        yield f"{before}\n {json.dumps(key)}: {_lines(value, 1)}"
        before = ","
    yield "{}\n" if before == "{" else "\n}\n"


def _replace(path: Path, pieces: Iterable[str]) -> None:
    """Write a file under another name, and rename it."""
    other = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with other.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        other.replace(path)
    finally:
        other.unlink(missing_ok=True)


def _read(path: Path, kind: type[_File]) -> _File:
    raw: Any = None
    try:
        text = read_given_text(path, "a file of a subgraph", MOST_MODEL_BYTES)
        raw = parse(text)
        return kind.model_validate_json(text)
    except ValidationError as error:
        problems = [_sentence(raw, each["loc"], each["msg"], each["input"]) for each in error.errors(include_url=False)]
        more = f" (and {len(problems) - _MOST_ERRORS} more)" if len(problems) > _MOST_ERRORS else ""
        raise FlowFilesError(f"{path}: {'; '.join(problems[:_MOST_ERRORS])}{more}") from error
    except (ValueError, RecursionError) as error:
        raise FlowFilesError(f"{path}: got no JSON, expected a file of a subgraph: {error}") from error


def _sentence(raw: Any, where: Sequence[int | str], problem: str, given: object) -> str:
    """Say where in a file a problem is: for a node by the user's name."""
    steps = [str(step) for step in where if not str(step).endswith("Attributes")]  # pydantic's names of the kinds
    place = ".".join(steps)
    if where[:1] == ("nodes",) and len(where) > 1 and isinstance(where[1], int):
        place = f"node '{_user_name(raw, where[1])}': {'.'.join(steps[3:]) or 'all of it'}"
    problem, got = problem.removeprefix("Value error, "), repr(given)
    if problem.startswith("got "):
        return f"{place}: {problem}"
    return f"{place}: {problem} (got {got if len(got) <= _MOST_CHARACTERS else got[:_MOST_CHARACTERS] + '...'})"


def _user_name(raw: Any, number: int) -> str:
    """Return the user's name of a node in JSON that is not yet validated."""
    node = raw["nodes"][number]
    if not isinstance(node, dict):
        return str(number)
    attrs = node.get("attrs")
    extension = attrs.get("nnhal") if isinstance(attrs, dict) else None
    if isinstance(extension, dict):
        users = extension.get("user_names") or [extension.get("value")]
        if isinstance(users, list) and users and all(isinstance(each, str) for each in users):
            return ", ".join(users)
    return str(node.get("name", number))


_ROLES = ("kernel", "bias", "gamma", "beta", "mean", "var", "input")


def check_constants(nodes: NodesFile, constants: ConstantsFile) -> None:
    """Raise FlowFilesError, with the user's name of the layer, if a constant is missing, differs, or has no user."""
    used = set()
    for node in nodes.kernels:
        for name, stands_for in _named(node):
            used.add(name)
            if name not in constants.entries:
                raise FlowFilesError(f"{place(node)}: got constant '{name}', expected one of the constants file")
            entry = constants.entries[name]
            for key, given in stands_for.items():
                if given is not None and given != (held := getattr(entry, key)):
                    got = f"{key} {given} of constant '{name}'"
                    raise FlowFilesError(f"{place(node)}: got {got}, expected {held} as in the constants file")
    for name, entry in constants.entries.items():
        if name not in used:
            raise FlowFilesError(f"constant '{name}': got no layer that reads it, expected at least one")
        check_scales(f"constant '{name}'", entry.nnhal, entry.shape)


def _named(node: KernelNode) -> Iterator[tuple[str, dict[str, object]]]:
    for role in _ROLES:
        name: str | None = getattr(node.attrs, f"{role}_const_name", None)
        stands_for: ConstantObject | None = getattr(node.attrs, f"{role}_const", None)
        if (stands_for.name if stands_for else None) != name:
            got = f"{role}_const_name {name} and {role}_const {stands_for.name if stands_for else '{}'}"
            raise FlowFilesError(f"{place(node)}: got {got}, expected the same name")
        if name is not None and stands_for:
            yield name, stands_for.model_dump(exclude={"name"})
    for name in ((node.attrs.nnhal.constant_fields if node.attrs.nnhal else None) or {}).values():
        yield name, {}


def to_text(value: Any) -> str:
    """Return JSON with a line for each member of an object; lists of plain values stay on one line."""
    return _lines(value, 0) + "\n"


def parse(text: str) -> Any:
    """Return what a text says. Raises ValueError if it is no JSON, or an object has a key twice."""
    return parse_json(text, _object)


def _lines(value: Any, depth: int) -> str:
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict) and value:
        members = (f"{json.dumps(key)}: {_lines(each, depth + 1)}" for key, each in value.items())
        return "{" + inner + f",{inner}".join(members) + outer + "}"
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return "[" + inner + f",{inner}".join(_lines(each, depth + 1) for each in value) + outer + "]"
    return json.dumps(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return found
