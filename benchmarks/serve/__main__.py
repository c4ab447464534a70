"""``python -m benchmarks.serve``: latency and throughput of a served model over each transport, as perf_analyzer's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import onnx
import typer

from benchmarks.serve import FLOORS, Measurement, Settings, Target, Transport, measure
from benchmarks.serve.breakdown import break_down, tables
from benchmarks.serve.breakdown.probes import own_time, own_time_table
from benchmarks.serve.report import as_json, measurement_lines, settings_lines, summary_lines, write_csv
from benchmarks.serve.server import MOST_INSTANCES, SMALL, BenchServer, serving, small_model
from nnhal.types.layout import Dimensions
from nnhal_frontends.input_shapes import parse_lengths, parse_shapes
from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.cli.app import one_line_errors
from nnhal_tools.cli.model_options import Lengths, Shapes
from nnhal_tools.given_model import read_model

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_Targets = Callable[[Mapping[Transport, str], Mapping[Transport, str]], Iterable[Target]]
"""Makes the targets from the address of each transport, and the name of the model there."""
_SHARED = {"none": (False,), "system": (True,), "both": (False, True)}
T = TypeVar("T")
_PROTOCOLS = (Transport.HTTP, Transport.GRPC)
_ALL = (Transport.NATIVE, Transport.GRPC, Transport.HTTP)


@app.command()
def serve(
    url: Annotated[
        str, typer.Option("-u", "--url", help="HOST:PORT, or the framework's directory with -i native.")
    ] = "",
    model: Annotated[str, typer.Option("-m", "--model", help="The model's name; a file with -i native.")] = "",
    version: Annotated[str, typer.Option("-x", "--model-version", help="The newest by default.")] = "",
    transport: Annotated[
        str, typer.Option("-i", "--protocol", help="grpc, http, native, in_process or ping_pong; several with commas.")
    ] = "",
    concurrency: Annotated[str, typer.Option("--concurrency-range", help="First, last and step, as 1:8:1.")] = "1",
    batch: Annotated[int, typer.Option("-b", "--batch-size", min=1)] = 1,
    dim: Lengths = None,
    shape: Shapes = None,
    input_data: Annotated[str, typer.Option(help="zero, random, or a JSON file.")] = "random",
    shared_memory: Annotated[
        str, typer.Option(help="none, system or both; with -i native: copy tensors, leave them in place, both.")
    ] = "",
    output_bytes: Annotated[
        int, typer.Option("--output-shared-memory-size", help="Room for outputs of unknown size.", min=1)
    ] = 102_400,
    header: Annotated[list[str] | None, typer.Option("-H", help="NAME:VALUE to send with every request.")] = None,
    interval: Annotated[int, typer.Option("-p", "--measurement-interval", help="Milliseconds.", min=10)] = 5000,
    percentile: Annotated[
        int | None, typer.Option(help="The percentile that must be stable; the mean by default.", min=1, max=99)
    ] = None,
    stability: Annotated[float, typer.Option("-s", "--stability-percentage", min=0.0)] = 10.0,
    max_trials: Annotated[int, typer.Option("-r", "--max-trials", min=1)] = 10,
    csv_file: Annotated[Path | None, typer.Option("-f", "--latency-report-file", help="Write CSV to FILE.")] = None,
    breakdown: Annotated[
        bool, typer.Option("--breakdown", help="Say where the time goes, on a server of its own; -m is an ONNX file.")
    ] = False,
    where: Annotated[
        bool, typer.Option("--where", help="Say where the framework's processor time goes, over HTTP and gRPC.")
    ] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Latency and throughput of a served model at given concurrencies.

    Without -u, a server with a small model is started and measured over every transport, with and without shared
    memory. Each concurrent request has a process of its own. With --breakdown: the time of each stage of a request, and
    wake-ups, processor time and system calls of each kind of thread. With --where: the framework's own processor time
    of a request, by what it does.
    """
    levels = concurrencies(concurrency)
    if where:
        _show_own_times(_transports(transport, _PROTOCOLS), levels, interval / 1e3, as_json_)
        return
    shared = _choice("--shared-memory", shared_memory or ("none" if url else "both"), _SHARED)
    transports = _transports(transport, (Transport.GRPC,) if url else _ALL)
    shapes = _shapes(model, dim or (), shape or ())
    headers = dict(map(_header, header or ()))
    settings = Settings(interval, percentile, stability, max_trials)
    if csv_file is not None and len(transports) * len(shared) > 1:
        raise ValueError("-f has columns for one transport: say which with -i and --shared-memory")
    if url and not model:
        raise ValueError("-u needs the name of a model: -m MODEL")

    def targets(urls: Mapping[Transport, str], names: Mapping[Transport, str]) -> Iterator[Target]:
        for kind in transports:
            for is_shared in shared if kind not in FLOORS else (False,):
                yield Target(
                    kind, urls[kind], names[kind], version, batch, shapes, input_data, is_shared, output_bytes, headers
                )

    if breakdown:
        if url or csv_file is not None or FLOORS & set(transports):
            raise ValueError("--breakdown is of a server of its own: expected neither -u nor -f nor a floor with -i")
        _show_breakdowns(Path(model) if model else None, targets, levels, interval / 1e3, as_json_)
        return
    measurements: list[Measurement] = []
    if not as_json_:
        _print(settings_lines(settings, batch))
    with _server(url, transports, model, levels[-1]) as (urls, names):
        for target in targets(urls, names):
            measurements += _measured(target, levels, settings, quiet=as_json_)
    if csv_file is not None:
        with csv_file.open("w") as file:
            write_csv(file, measurements)
    if as_json_:
        print(json.dumps(as_json(measurements, settings)))


def concurrencies(text: str) -> list[int]:
    """The levels of START, START:END or START:END:STEP, including the end. Raises ValueError."""
    words = text.split(":")
    if not 1 <= len(words) <= 3 or not all(word.isdigit() and int(word) > 0 for word in words):
        raise ValueError(f"--concurrency-range {text!r}: expected START:END:STEP, numbers from 1 on")
    start, end, step = (*map(int, words), *(int(words[0]), 1)[len(words) - 1 :])
    if end < start:
        raise ValueError(f"--concurrency-range {text!r}: the end is below the start")
    return list(range(start, end + 1, step))


def _measured(target: Target, levels: list[int], settings: Settings, quiet: bool) -> list[Measurement]:
    if not quiet:
        print(f"{target.title}: model {target.model}\n")
    own = []
    for level in levels:
        own.append(measure(target, level, settings))
        if not quiet:
            _print(measurement_lines(own[-1]))
    if not quiet:
        _print(summary_lines(own, settings.percentile))
    return own


def _show_breakdowns(
    file: Path | None, targets: _Targets, levels: Sequence[int], seconds: float, as_json: bool
) -> None:
    """Serve a model, or a small one, and print the breakdown of each target at each concurrency.

    Raises ValueError if the file is no ONNX model, BenchError or OSError.
    """
    console = output_console()
    found = []
    name = file.stem if file is not None else SMALL
    model = _model(file) if file is not None else small_model()
    with serving({name: model}, min(levels[-1], MOST_INSTANCES)) as server:
        for target in targets(server.urls, dict.fromkeys(Transport, name)):
            for level in levels:
                found.append(break_down(target, level, server, seconds))
                if not as_json:
                    for table in tables(found[-1]):
                        show_table(table, console)
                        console.print()
    if as_json:
        print(json.dumps({"version": 1, "breakdowns": [breakdown.as_dict() for breakdown in found]}))


def _show_own_times(kinds: Sequence[Transport], levels: Sequence[int], seconds: float, as_json: bool) -> None:
    """Print where the framework's time goes. Raises ValueError for other transports, BenchError or OSError."""
    if not set(kinds) <= set(_PROTOCOLS):
        raise ValueError("--where is over http and grpc: expected no other with -i")
    times = [own_time(kind, level, seconds) for kind in kinds for level in levels]
    if as_json:
        print(json.dumps({"version": 1, "times": [each._asdict() for each in times]}))
    else:
        show_table(own_time_table(times), output_console())


def _model(file: Path) -> onnx.ModelProto:
    try:
        return onnx.load(file)
    except OSError:
        raise
    except Exception as error:  # protobuf's own exceptions have no common base
        raise ValueError(f"-m {file}: expected an ONNX model: {error}") from error


@contextmanager
def _server(
    url: str, transports: tuple[Transport, ...], model: str, instances: int
) -> Iterator[tuple[Mapping[Transport, str], Mapping[Transport, str]]]:
    """The address of each transport, and the name of the model there."""
    if url or set(transports) <= FLOORS:
        yield dict.fromkeys(Transport, url), dict.fromkeys(Transport, model)
        return
    if model:
        raise ValueError(f"-m {model!r} needs a server: -u URL")
    with serving({SMALL: small_model()}, min(instances, MOST_INSTANCES)) as server:
        file = str(server.models[SMALL])
        yield _urls(server), {**dict.fromkeys(Transport, SMALL), **dict.fromkeys(FLOORS, file)}


def _urls(server: BenchServer) -> Mapping[Transport, str]:
    return {**dict.fromkeys(FLOORS, ""), **server.urls}


def _transports(text: str, otherwise: tuple[Transport, ...]) -> tuple[Transport, ...]:
    if not text:
        return otherwise
    kinds = {str(kind): kind for kind in Transport}
    return tuple(_choice("-i", word.strip(), kinds) for word in text.split(","))


def _choice(option: str, word: str, choices: Mapping[str, T]) -> T:
    if word not in choices:
        raise ValueError(f"{option} {word!r}: expected {', '.join(choices)}")
    return choices[word]


def _shapes(model: str, lengths: Sequence[str], shapes: Sequence[str]) -> Mapping[str, Dimensions]:
    """The dimensions of inputs by --dim and --shape. Raises ValueError, or OSError if the file cannot be read."""
    given = parse_shapes(shapes)
    if not parse_lengths(lengths):
        return given
    if not Path(model).is_file():
        raise ValueError(f"--dim: got model {model!r}, expected a file, which has the names; --shape is for others too")
    return read_model(Path(model), lengths, shapes).dimensions


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not name.strip() or not separator:
        raise ValueError(f"-H {text!r}: expected NAME:VALUE")
    return name.strip(), value.strip()


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    with one_line_errors("python -m benchmarks.serve"):
        app(prog_name="python -m benchmarks.serve")
