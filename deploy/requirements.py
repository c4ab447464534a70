"""Print what nnhal needs, one requirement a line, without nnhal itself: a layer of an image that changes rarely.

python3 requirements.py pyproject.toml [EXTRA…] [--build]

Extras of nnhal's own are followed. --build adds what builds nnhal.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_OWN = re.compile(r"nnhal\[([^]]+)\]")


def main(arguments: Sequence[str]) -> None:
    """Print the requirements. Raises KeyError for an unknown extra."""
    file, *extras = (argument for argument in arguments if argument != "--build")
    content = tomllib.loads(Path(file).read_text())
    needed = [*content["project"]["dependencies"]]
    for extra in extras:
        needed += _required(content["project"]["optional-dependencies"], extra)
    if "--build" in arguments:
        needed += content["build-system"]["requires"]
    print("\n".join(dict.fromkeys(needed)))


def _required(extras: Mapping[str, Sequence[str]], name: str) -> Iterator[str]:
    for requirement in extras[name]:
        own = _OWN.fullmatch(requirement)
        if own is None:
            yield requirement
        else:
            for other in own[1].split(","):
                yield from _required(extras, other.strip())


if __name__ == "__main__":
    main(sys.argv[1:])
