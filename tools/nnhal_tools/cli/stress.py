"""``nnhal stress``: whether a driver keeps the contract under concurrent and faulty use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.given_model import require_writable
from nnhal_tools.stress import StressReport, StressScript, draw_clients, reduce_script, run_script, run_stress
from nnhal_tools.stress.script_file import read_script, write_script
from nnhal_tools.stress.supervisor import Watch
from nnhal_tools.stress.tables import show_reduced, show_report
from nnhal_tools.up import opened_device
from nnhal_tools.up.drivers import given_device

_NAME = "nnhal-stress"
_SECONDS, _SESSIONS, _SEED = 60.0, 4, 1
_WORKERS = 4
_TRIES, _TRIES_OF_SHRINKING = 1, 3


def stress(
    device: Annotated[
        str,
        typer.Argument(
            help="A driver, which gets a process of its own, or a running device's DIR.", autocompletion=complete_driver
        ),
    ],
    seconds: Annotated[float | None, typer.Option(help="For how long.", min=1, show_default=f"{_SECONDS:.0f}")] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            help="Sessions at a time, each a process with two or three threads.", min=1, show_default=str(_SESSIONS)
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The same seed gives each client the same sequence of actions.", show_default=str(_SEED)),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Executions that the driver's process runs at a time.",
            min=1,
            show_default=f"{_WORKERS}, or 1 if the driver is serial or its times are modelled",
        ),
    ] = None,
    script: Annotated[Path | None, typer.Option(help="Do what the script in FILE says instead.")] = None,
    tries: Annotated[
        int | None,
        typer.Option(
            help="How often a script is run, since its clients interleave differently each time.",
            min=1,
            show_default=f"{_TRIES}, with --shrink {_TRIES_OF_SHRINKING}",
        ),
    ] = None,
    shrink: Annotated[
        Path | None,
        typer.Option(help="End at the first violation, and write the least script that still shows it to FILE."),
    ] = None,
    save_script: Annotated[
        Path | None, typer.Option(help="Write what each client has begun to do to FILE, for --script.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole report to FILE.")] = None,
) -> None:
    """Call every method of the HAL at random, with valid and invalid arguments, from sessions that may be killed.

    Each status is compared with those that the contract allows, each output with the right one. Afterwards the device
    must hold nothing of the sessions. No other client may use the device meanwhile. Exit status 1 on any violation or
    leftover, or if nothing was done.
    """
    require_writable((shrink, save_script, json_file))
    _require_one_source(script, {"--seconds": seconds, "--sessions": sessions, "--seed": seed}, tries, shrink)
    over: Watch = (lambda report: bool(report.findings)) if shrink else lambda _: False
    tries = tries or (_TRIES_OF_SHRINKING if shrink else _TRIES)
    opened = _Opened(device, workers)
    if script:
        given = read_script(script)
        reports = _run_script(opened, given, tries, over)
        clients, at_a_time = iter(given.clients), given.sessions
    else:
        seconds, at_a_time, seed = seconds or _SECONDS, sessions or _SESSIONS, _SEED if seed is None else seed
        with opened() as remote, _progress(seconds) as show:
            reports = [run_stress(remote, device, seconds, at_a_time, seed, show, over)]
        clients = draw_clients(seed)
    report = next((each for each in reports if not each.passed), reports[-1])
    done = report.script(at_a_time, clients)
    if save_script:
        write_script(save_script, done)
    report.workers, report.serial_because = opened.workers, opened.serial_because
    console = output_console()
    show_report(console, report)
    story = {**report.as_dict(), "runs": len(reports), "failed_runs": sum(not each.passed for each in reports)}
    if len(reports) > 1:
        console.print(f"the script was run {len(reports)} times, {story['failed_runs']} of them failed")
    if shrink and report.kinds:
        story["shrunk"] = _shrink(console, opened, done, report, tries, shrink)
    if json_file:
        json_file.write_text(json.dumps(story, indent=1))
    if not report.passed:
        raise typer.Exit(1)


class _Opened:
    """Opens the device, each time in the same way, and knows how many executions it runs at a time."""

    def __init__(self, device: str, workers: int | None) -> None:
        self.device = device
        entry = given_device(device)
        self._has_choice = not entry.is_foreign and "workers" not in entry.model_fields_set
        self._takes_fewer, self._wanted = workers is None, workers or _WORKERS
        self.workers = 0
        self.serial_because = ""

    @contextmanager
    def __call__(self) -> Iterator[RemoteDevice]:
        with ExitStack() as stack:
            remote = stack.enter_context(opened_device(self.device, _NAME, self._wanted))
            if self._has_choice and self._takes_fewer and self._wanted > 1 and remote.describe().modelled_timing:
                self._wanted, self.serial_because = 1, "its times are modelled"
                stack.close()
                remote = stack.enter_context(opened_device(self.device, _NAME, self._wanted))
            try:
                self.workers = remote.describe().workers
            except NnhalError:  # the HAL alone does not say
                self.workers = 0
            if self._has_choice and self.workers < self._wanted:
                self.serial_because = "the driver is serial"
            yield remote


def _require_one_source(script: Path | None, drawn: dict[str, object], tries: int | None, shrink: Path | None) -> None:
    """Raise BadParameter if an option has no meaning beside others."""
    given = [name for name, value in drawn.items() if value is not None]
    if script and given:
        raise typer.BadParameter(f"got {' and '.join(given)} beside --script, which says all that clients do")
    if tries is not None and not script and not shrink:
        raise typer.BadParameter("got --tries, expected --script or --shrink with it: only scripts are run again")


def _run_script(opened: _Opened, script: StressScript, tries: int, over: Watch) -> list[StressReport]:
    """Run a script so often, or until ``over`` says that a report is enough."""
    reports: list[StressReport] = []
    with Console(stderr=True).status("") as status:
        while len(reports) < tries and not (reports and over(reports[-1])):
            status.update(f"run {len(reports) + 1} of {tries}")
            with opened() as remote:
                reports.append(run_script(remote, opened.device, script, over=over))
    return reports


def _shrink(
    console: Console, opened: _Opened, script: StressScript, report: StressReport, tries: int, file: Path
) -> dict[str, object] | None:
    """Write the least script to a file, which has the least one so far at any time. Returns the outcome for JSON."""
    runs = 0

    def run(tried: StressScript, over: Watch) -> StressReport:
        nonlocal runs
        runs += 1
        status.update(f"run {runs}: {len(tried.clients)} clients, {tried.actions} actions")
        with opened() as remote:
            return run_script(remote, opened.device, tried, over=over)

    with Console(stderr=True).status("") as status:
        reduced = reduce_script(script, report, run, tries, lambda found: write_script(file, found))
    if reduced is None:
        console.print(f"not shrunk: the violation did not come again in {tries} runs; more --tries may show it")
        return None
    show_reduced(console, reduced)
    return reduced.as_dict()


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[StressReport, float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("stress", total=seconds)

        def show(report: StressReport, elapsed: float) -> None:
            text = (
                f"{report.actions} actions, {report.endings.total()} sessions over, {len(report.findings)} violations"
            )
            progress.update(task, completed=elapsed, description=text)

        yield show
