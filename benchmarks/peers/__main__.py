"""``python -m benchmarks.peers``: nnhal, Triton, MLServer and KServe measured on the same models."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import onnx
from rich.console import Console

from benchmarks.aims import machine
from benchmarks.models import cnn, rectifier
from benchmarks.peers.contenders import (
    CNN,
    LARGE,
    TINY,
    V2_BYTES,
    V2_SHARED,
    nnhal_contenders,
    pass_through,
    peer_contenders,
)
from benchmarks.peers.environments import REQUIREMENTS, PeerError, environments_directory, installed
from benchmarks.peers.ratios import Ratio, aim_table, ratio_table, ratios, result_table
from benchmarks.peers.rounds import Result, run_rounds
from benchmarks.peers.starting import Addresses, echo_server, peer_server
from benchmarks.rounds import Say
from benchmarks.serve.server import serving
from nnhal_pages.terminal import output_console, show_table

_SIZES = tuple(4 << 10 << 2 * step for step in range(7))
"""Sizes at which V2 with shared memory is compared with V2 with bytes: 4 KiB to 16 MiB."""
_MODELS = (TINY, CNN, LARGE)
_ATTEMPTS = 2
"""Attempts to start a peer: on a busy machine pytriton's processes may miss one another."""


def main() -> int:
    """Measure and print. Returns 1 if an aim is missed."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are ended in any case
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)

    def say(line: str) -> None:
        console.print(line, markup=False)

    started = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **machine()}
    started |= {"seconds": arguments.seconds, "rounds": arguments.rounds}
    results: list[Result] = []
    try:
        for measured in _measured(arguments, say):
            results += measured
            if arguments.json:
                arguments.json.write_text(json.dumps(_report(started, results, arguments.sizes), indent=1))
    except KeyboardInterrupt:
        say("interrupted: what there is by now")
    found = ratios(results, arguments.sizes)
    _show(results, found)
    return int(any(ratio.is_met is False for ratio in found))


def _measured(arguments: argparse.Namespace, say: Say) -> Iterator[list[Result]]:
    """The results of one model at each concurrency."""
    files = {TINY: rectifier(1 << 10), CNN: cnn(), LARGE: rectifier(16 << 20)}
    passing = {pass_through(size): rectifier(size) for size in arguments.sizes}
    seconds, rounds = arguments.seconds, arguments.rounds
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-peers-")))
        nnhal = stack.enter_context(serving({**files, **passing}, arguments.instances, arguments.front_workers))
        peers = _peers(stack, arguments, files, directory, say)
        echo = stack.enter_context(echo_server(TINY, directory)) if TINY in arguments.models else None
        for model in arguments.models:
            contenders = dict(nnhal_contenders(nnhal, model))
            for name, addresses in peers.items():
                contenders.update(peer_contenders(name, addresses, model))
            if echo is not None and model == TINY:
                contenders.update(peer_contenders("echo", echo, model))
            for concurrency in arguments.concurrency:
                yield run_rounds(model, contenders, concurrency, seconds, rounds, say)
        for model in passing:
            both = {name: t for name, t in nnhal_contenders(nnhal, model).items() if name in (V2_BYTES, V2_SHARED)}
            yield run_rounds(model, both, 1, seconds, rounds, say)


def _report(started: Mapping[str, object], results: list[Result], sizes: tuple[int, ...]) -> dict[str, object]:
    found = [{**asdict(ratio), "met": ratio.is_met} for ratio in ratios(results, sizes)]
    return {**started, "load_at_end": os.getloadavg()[0], "results": [asdict(r) for r in results], "ratios": found}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--models", type=_words, default=_MODELS, help=f"of {', '.join(_MODELS)}, with commas")
    parser.add_argument("--peers", type=_words, default=tuple(REQUIREMENTS), help=f"of {', '.join(REQUIREMENTS)}")
    parser.add_argument("--concurrency", type=_numbers, default=(1, 4), help="with commas")
    parser.add_argument("--sizes", type=_numbers, default=_SIZES, help="bytes, of shared memory against bytes")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one window")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instances", type=int, default=os.cpu_count() or 1, help="of each model, on every server")
    parser.add_argument("--front-workers", type=int, metavar="N", help="nnhal's processes that serve the protocol")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to it")
    return parser


def _peers(
    stack: ExitStack,
    arguments: argparse.Namespace,
    files: dict[str, onnx.ModelProto],
    directory: Path,
    say: Say,
) -> dict[str, Addresses]:
    """The peers that can be installed and started. A message says why the others cannot."""
    paths = {}
    for name in arguments.models:
        paths[name] = directory / f"{name}.onnx"
        onnx.save(files[name], paths[name])
    found: dict[str, Addresses] = {}
    for name in arguments.peers:
        for attempt in range(_ATTEMPTS):
            try:
                peer = installed(name, environments_directory())
                server = peer_server(peer, paths, arguments.instances, directory / f"{attempt}")
                found[name] = stack.enter_context(server)
                say(f"{name} serves")
                break
            except PeerError as error:
                say(f"{name} is {'tried again' if attempt + 1 < _ATTEMPTS else 'left out'}: {error}")
    return found


def _show(results: list[Result], found: list[Ratio]) -> None:
    console = output_console()
    show_table(result_table(results), console)
    show_table(ratio_table(found), console)
    show_table(aim_table(found), console)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _words(text)))


if __name__ == "__main__":
    sys.exit(main())
