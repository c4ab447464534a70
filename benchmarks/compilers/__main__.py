"""``python -m benchmarks.compilers``: nnhal's compilers on networks of others, that of ethos_u beside Vela.

The exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.aims import Aim, statement, tell
from benchmarks.cascade.loading import NoNetworksError, networks_folder
from benchmarks.compilers.arenas import ArenaRequest, comparisons, row
from benchmarks.compilers.comparison import comparison_table, summary_table
from benchmarks.compilers.exact import exact, exact_aims, exact_table
from benchmarks.compilers.networks import networks
from benchmarks.compilers.others import compare, network_aims, network_table
from benchmarks.compilers.program import Core, vela_program
from benchmarks.compilers.weights import weight_aims, weight_sizes, weights_table
from benchmarks.environments import InstallationError
from benchmarks.mlip.others import others_aims, others_runs, others_table
from benchmarks.tables import ShownTables, say

_SECTIONS = ("networks", "weights", "arenas", "placement", "mlip")
_ARENA_NETWORKS = "mobilenet_v1_1.0_224,mobilenet_v2_1.0_224"
_ACCELERATORS = "u55-128"
_ARENAS = "0,160,192,224,256,288,320,352,384,416,448,512,640,768,1024,1280"


def main() -> int:
    """Compare and print. Returns 1 if an aim is missed, 2 if nothing can be compared."""
    arguments = _parser().parse_args()
    tables, aims = ShownTables(), list[Aim]()
    try:
        if "networks" in arguments.sections:
            aims += _networks(arguments, tables)
        if "weights" in arguments.sections:
            aims += _weights(arguments, tables)
        if "arenas" in arguments.sections:
            aims += _arenas(arguments, tables)
        if "placement" in arguments.sections:
            aims += _placement(arguments, tables)
        if "mlip" in arguments.sections:
            runs = list(others_runs())
            tables.show(others_table(runs))
            aims += others_aims(runs)
    except (NoNetworksError, InstallationError, OSError) as error:
        say(str(error))
        return 2
    return tell(aims, tables, arguments.markdown, arguments.json)


def _networks(arguments: argparse.Namespace, tables: ShownTables) -> Iterator[Aim]:
    vela, results = vela_program(), []
    for path in networks(arguments.networks):
        say(path.stem)
        results.append(compare(path, vela, arguments.accelerators[0]))
    tables.show(network_table(results))
    for each in results:
        if each.refusal:
            say(each.refusal)
    yield from network_aims(results)


def _weights(arguments: argparse.Namespace, tables: ShownTables) -> Iterator[Aim]:
    """Weights should take the bytes that Vela's encoder makes of them, also those of the networks in $NNHAL_MODELS."""
    vela, paths = vela_program(), [*sorted(networks_folder().glob("*.tflite")), *networks(arguments.networks)]
    found = [weight_sizes(path, vela, arguments.accelerators[0]) for path in paths]
    tables.show(weights_table(found))
    yield from weight_aims(found)


def _arenas(arguments: argparse.Namespace, tables: ShownTables) -> Iterator[Aim]:
    """Every schedule of Vela should be dominated, with the memory that it says and with what nnhal needs for it."""
    request = ArenaRequest(
        arguments.arena_networks, arguments.accelerators, arguments.cores, arguments.arenas, arguments.recompute
    )
    found = list(comparisons(request))
    tables.show(comparison_table(found))
    tables.show(summary_table(found))
    if arguments.arenas_json:
        arguments.arenas_json.write_text(json.dumps([row(each) for each in found], indent=1))
    placed = sum(each.own_placed is None for each in found)
    remark = f"of {len(found)}; {placed} if nnhal places Vela's buffers"
    yield statement("Vela's schedules that the frontier does not dominate", sum(e.own is None for e in found), remark)


def _placement(arguments: argparse.Namespace, tables: ShownTables) -> Iterator[Aim]:
    """No addresses should make a least schedule smaller."""
    found = [exact(path, arguments.accelerators[0], arguments.seconds) for path in networks(arguments.networks)]
    tables.show(exact_table(found))
    yield from exact_aims(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.compilers", description=__doc__)
    parser.add_argument("--sections", type=_words, default=_SECTIONS, help=f"of {', '.join(_SECTIONS)}, with commas")
    parser.add_argument("--networks", type=_words, default=(), help="of others, with commas; all by default")
    parser.add_argument("--accelerators", type=_words, default=_words(_ACCELERATORS), help="with commas")
    parser.add_argument("--arena-networks", type=_words, default=_words(_ARENA_NETWORKS), help="in $NNHAL_MODELS")
    parser.add_argument("--cores", type=_cores, default=tuple(Core), help=f"of {', '.join(Core)}, with commas")
    parser.add_argument("--arenas", type=_numbers, default=_numbers(_ARENAS), help="KiB, with commas; 0 is the least")
    parser.add_argument("--recompute", action="store_true", help="let the frontier recompute")
    parser.add_argument("--seconds", type=float, default=60, help="for the solver, of each network's placement")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the aims to it")
    parser.add_argument("--arenas-json", type=Path, metavar="FILE", help="write each schedule of Vela's arenas to it")
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _words(text)))


def _cores(text: str) -> tuple[Core, ...]:
    return tuple(map(Core, _words(text)))


if __name__ == "__main__":
    sys.exit(main())
