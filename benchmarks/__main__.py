"""``python -m benchmarks NAME``: the scenarios that need a checkout, and those of ``nnhal bench``, by one runner."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib import import_module

import typer

from nnhal_tools.bench.runner import Report, command_of_scenario
from nnhal_tools.cli.app import one_line_errors

SCENARIOS = {
    "hop": ("nnhal_tools.bench.hop:hop", "a hop between processes, against its floor"),
    "chain": ("nnhal_tools.bench.chain:chain", "a further step of a plan"),
    "modes": ("nnhal_tools.bench.modes:modes", "each way of executing"),
    "fallback": ("nnhal_tools.bench.fallback:fallback", "a value passed between devices"),
    "decode": ("benchmarks.decode:decode", "a token of a decoder, and a run of models with variables"),
    "ort": ("benchmarks.ort:ort", "a session of ONNX Runtime over nnhal's provider"),
    "startup": ("benchmarks.startup:startup", "the processor time of a start"),
    "loading": ("benchmarks.loading:loading", "loads as models grow"),
    "recording": ("benchmarks.recording:recording", "a burst while it is recorded"),
    "zoo": ("benchmarks.zoo.__main__:zoo", "models of other people's packages beside their runtimes"),
    "zoo.stages": ("benchmarks.zoo.stages:stages", "where the milliseconds of a load go"),
    "zoo.caching": ("benchmarks.zoo.caching:caching", "a compilation cache, what it costs and gains"),
    "serve": ("benchmarks.serve:serve", "a served model over each transport, by perf_analyzer and a native loop"),
    "peers": ("benchmarks.peers.__main__:peers", "nnhal beside Triton, MLServer and KServe"),
    "compilers": ("benchmarks.compilers.__main__:compilers", "aims of the compilers, beside Vela"),
}
"""Each scenario by its name: its module and function, and what it measures."""


def run(scenario: Callable[..., Report], name: str = "") -> None:
    """Run a scenario as the program ``python -m benchmarks NAME``; errors of the user's are one line."""
    program = f"python -m benchmarks {name or scenario.__name__}"
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command_of_scenario(scenario))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers that were started are ended in any case
    with one_line_errors(program):
        app(prog_name=program)


def main() -> None:
    """Run the scenario that the first argument names, or list all."""
    name, *rest = sys.argv[1:] or [""]
    if name not in SCENARIOS:
        for each, (_, about) in SCENARIOS.items():
            print(f"  {each:14}{about}")
        sys.exit(f"got {name!r}, expected one of these" if name not in ("", "--help") else 0)
    module, _, function = SCENARIOS[name][0].partition(":")
    sys.argv[1:] = rest
    run(getattr(import_module(module), function), name)


if __name__ == "__main__":
    main()
