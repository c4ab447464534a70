"""Print what nnhal needs, one requirement a line, without nnhal itself: a layer of an image that changes rarely.

python3 requirements.py pyproject.toml [EXTRA…] [--build]
python3 requirements.py --machine amd64|arm64

Extras of nnhal's own are followed. --build adds what builds nnhal. --machine prints the options of pip for a machine
that is not this one: Debian 12 is the oldest with Python 3.11, and wheels for older systems run there, too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_OLDEST_LIBRARIES = (36, 35, 34, 31, 28, 27, 26, 24, 17, 12)
"""Minor versions of the C library that wheels name, of those that run with Debian 12's."""
_PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
_OWN = re.compile(r"nnhal\[([^]]+)\]")


def main(arguments: Sequence[str]) -> None:
    """Print the requirements. Raises KeyError for an unknown extra."""
    if arguments[:1] == ["--machine"]:
        processor = _PROCESSORS[arguments[1]]
        names = [*(f"manylinux_2_{minor}" for minor in _OLDEST_LIBRARIES), "manylinux2014"]
        print("--only-binary=:all:", *(f"--platform={name}_{processor}" for name in names), sep="\n")
        return
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
