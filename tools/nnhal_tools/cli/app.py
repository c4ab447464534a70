"""The commands, with what they share: help, and errors of one line with a hint.

A command's module is imported when the command runs, since the list of commands needs none of them. Installed packages
add commands by entry points of the group ``nnhal.commands``: a function with typer's annotations, or a ``typer.Typer``.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nnhal_tools.cli.former_names import present_words
from nnhal_tools.cli.waiting import MovingSign


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is not imported yet."""

    target: str
    """The module, a colon, and the function or the group of commands."""

    help: str
    """What the list of commands says of it: the first paragraph of its own help."""

    passes_through: bool = False
    """Whether the command becomes another program, which reads its own options."""

    is_silent: bool = True
    """Whether nobody writes to the terminal but the command itself."""

    is_listed: bool = True
    """Whether help lists it: not if it is for scripts and containers alone."""

    def load(self, name: str) -> Any:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        return command_of(name, getattr(import_module(module), attribute), self.passes_through)


def command_of(name: str, found: Any, passes_through: bool = False) -> Any:
    """Make a command of a function or of a group of commands."""
    if not isinstance(found, typer.Typer):
        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if passes_through else None
        function, found = found, typer.Typer(add_completion=False)
        found.command(
            name,
            cls=_program_command() if passes_through else None,
            context_settings=settings,
            add_help_option=not passes_through,
        )(function)
    command = typer.main.get_command(found)
    command.name = name
    return command


def _program_command() -> Any:
    from nnhal_tools.cli.completion import ProgramCommand

    return ProgramCommand


COMMANDS = {
    "demo": LazyCommand(
        "nnhal_tools.cli.demo:demo", "Classify handwritten digits, float32 and int8, across two device processes."
    ),
    "run": LazyCommand(
        "nnhal_tools.cli.run:run",
        "Run one inference: start devices and a framework, load MODEL, run it, show or save what comes out.",
    ),
    "explain": LazyCommand(
        "nnhal_tools.cli.explain:explain",
        "Explain where each operation runs and why the other devices refuse it, and what each edge costs and why.",
    ),
    "calibrate": LazyCommand(
        "nnhal_tools.cli.calibrate:calibrate",
        "Measure how long devices take beside their cost models, and keep it for plans that ask for it.",
    ),
    "diff": LazyCommand(
        "nnhal_tools.cli.diff:diff",
        "Compare MODEL on a device with a reference, layer by layer: where they part, by how much, and why.",
    ),
    "conformance": LazyCommand(
        "nnhal_tools.cli.conformance:conformance",
        "Run conformance vectors against a device process, over its socket and link.",
    ),
    "check": LazyCommand(
        "nnhal_tools.cli.check:check",
        "Check that a device's process, in whatever language, serves as the documentation says.",
    ),
    "stress": LazyCommand(
        "nnhal_tools.cli.stress:stress",
        "Take random steps with several clients of a device: every call of the HAL, with valid and invalid arguments.",
    ),
    "drill": LazyCommand(
        "nnhal_tools.cli.drill:drill",
        "Kill, hang, cut off, update and abuse a testbed of its own under requests, and count lost requests.",
    ),
    "doctor": LazyCommand(
        "nnhal_tools.cli.doctor:doctor",
        "Check sockets, limits, namespaces, memory, versions and devices, and say what to do.",
    ),
    "up": LazyCommand(
        "nnhal_tools.cli.processes:app",
        "Start devices, a framework and a dashboard, watch over them, and stop them all on SIGINT or SIGTERM.",
        is_silent=False,
    ),
    "serve": LazyCommand(
        "nnhal_tools.cli.processes:serve",
        "Serve models over devices that run already: nnhal serve --endpoint DIR --device NAME=DIR…",
        passes_through=True,
    ),
    "device": LazyCommand(
        "nnhal_tools.cli.processes:device",
        "Serve one emulated accelerator: nnhal device NAME --endpoint DIR.",
        passes_through=True,
    ),
    "dashboard": LazyCommand(
        "nnhal_tools.cli.processes:dashboard",
        "Serve the pages for operators: nnhal dashboard --directory DIR.",
        passes_through=True,
    ),
    "health": LazyCommand(
        "nnhal_tools.cli.processes:health",
        "Ask processes whether they serve, cheaply, for containers: nnhal health DIR, a socket, or a URL.",
        passes_through=True,
        is_listed=False,
    ),
    "watched": LazyCommand(
        "nnhal_tools.cli.processes:watched",
        "Run 'nnhal COMMAND' as the first process of a container, and end it if it hangs: nnhal watched COMMAND…",
        passes_through=True,
        is_listed=False,
    ),
    "testbed": LazyCommand(
        "nnhal_tools.cli.testbed:app", "Start a testbed in containers, and try it.", is_silent=False
    ),
    "secrets": LazyCommand(
        "nnhal_tools.cli.secrets:secrets",
        "Make an admin key, tokens and a certificate for a testbed where there are none, and print where they are.",
        is_listed=False,
    ),
    "ps": LazyCommand("nnhal_tools.cli.show:ps", "List the processes of a testbed, as 'nnhal show processes' does."),
    "show": LazyCommand("nnhal_tools.cli.show:app", "Show what a testbed has, and what has happened."),
    "ctl": LazyCommand("nnhal_tools.cli.ctl:app", "Steer the processes, devices and models of a testbed."),
    "faults": LazyCommand(
        "nnhal_tools.cli.faults:app",
        "Tell running devices to misbehave: they must have been started with --allow-faults.",
    ),
    "record": LazyCommand(
        "nnhal_tools.cli.record:record",
        "Record every call that clients make of a device, with its arguments, answers and times; or show a recording.",
    ),
    "replay": LazyCommand(
        "nnhal_tools.cli.replay:replay",
        "Send the calls of a recording to another device, and say what differs: in which call, from which layer on.",
    ),
    "completion": LazyCommand(
        "nnhal_tools.cli.completion:completion",
        'Print what has a shell complete commands, options and names: eval "$(nnhal completion bash)".',
        is_listed=False,
    ),
    "bench": LazyCommand(
        "nnhal_tools.cli.bench:app",
        "Measure, against a named floor, in one run: nnhal bench MODEL for a file, or one of the commands.",
    ),
}
"""In the order in which help lists them."""


ENTRY_POINT_GROUP = "nnhal.commands"
_DOORS = {
    "native": ("native", "native", "Run programs of NNAPI and TensorFlow Lite, unchanged."),
    "ort": ("onnxruntime", "frontends/ort_ep", "Run a Python program whose ONNX Runtime gives models to nnhal."),
}
"""Commands of distributions in C++ that nnhal comes with: the extra and the folder of each, and what it does."""


@cache
def plug_ins() -> dict[str, EntryPoint]:
    """Return the commands of installed packages by name, sorted. A name of ours stays ours."""
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in COMMANDS}
    return dict(sorted(found.items()))


def _plugged_in(point: EntryPoint) -> Any:
    """Import a package's command; one that cannot be imported is a command that says so."""
    try:
        return command_of(point.name, point.load())
    except Exception as error:  # whatever another package's module raises
        reason = f"{type(error).__name__}: {error}"

        def broken() -> None:
            raise ValueError(f"command {point.name!r} of {point.value} cannot be imported: {reason}")

        broken.__doc__ = f"Cannot be imported: {reason}"
        return command_of(point.name, broken, passes_through=True)


def _not_installed(name: str) -> Any:
    """The command of a distribution in C++ that is not installed says what installs it."""
    extra, folder, about = _DOORS[name]

    def missing() -> None:
        from nnhal_hosting.extras import install_command

        raise ValueError(
            f"'nnhal {name}' is not installed, since its libraries are in C++: with g++ (apt-get install g++), "
            f"{install_command(extra, folder=folder)}"
        )

    missing.__doc__ = f"{about} Not installed."
    return command_of(name, missing, passes_through=True)


class _LazyGroup(TyperGroup):
    """Runs the commands in place of the placeholders that stand for them in the list."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted({*plug_ins(), *_DOORS})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in {**_DOORS, **plug_ins()}:
            command = _plugged_in(plug_ins()[cmd_name]) if cmd_name in plug_ins() else _not_installed(cmd_name)
            command.rich_help_panel = _OTHERS
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, present_words(args))
        return name, COMMANDS[name].load(name) if name in COMMANDS else command, rest


app = typer.Typer(
    name="nnhal",
    cls=_LazyGroup,
    help="An emulator of a phone's NN HAL: accelerators as processes, models split over them by pool handles.",
    epilog="Start with 'nnhal demo'. 'nnhal COMMAND --help' describes a command; docs/reference/commands.md has all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _placeholder() -> None:
    pass


_GROUPS = {
    "Run and look": "demo run explain bench doctor",
    "Build and test a driver": "diff conformance check stress record replay faults drill calibrate",
    "Operate": "up serve device dashboard testbed ps show ctl",
}
GROUP_OF = {name: title for title, names in _GROUPS.items() for name in names.split()}
_OTHERS = "Compilers and other packages"

for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.help, rich_help_panel=GROUP_OF.get(_name), hidden=not _command.is_listed)(
        _placeholder
    )


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"nnhal {version('nnhal')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command. An error is one line on standard error."""
    waiting = MovingSign(f"nnhal {' '.join(sys.argv[1:2])}")
    if _may_take_long(sys.argv[1:]):
        waiting.start()
    try:
        with one_line_errors("nnhal"):
            app()
    finally:
        waiting.end()
        # The process ends: to look for reference cycles in all that was imported would take it a tenth of a second.
        gc.freeze()


def _may_take_long(words: list[str]) -> bool:
    """True if a command may be silent for long, and no other program writes to its terminal."""
    named = COMMANDS.get(words[0]) if words else None
    return named is not None and named.is_silent and not named.passes_through and "--help" not in words


@contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """Print an error that is the user's to mend as one line, with a hint if there is one, and end with status 1."""
    try:
        yield
    except Exception as error:
        from nnhal.errors import NnhalError

        if not isinstance(error, (NnhalError, OSError, ValueError)):
            raise
        if getattr(error, "is_reported", False):  # by the process itself, which this one was to start
            sys.exit(1)
        print(f"{program}: {_describe(error)}", file=sys.stderr)
        hint = _hint(error)
        if hint:
            print(f"hint: {hint}", file=sys.stderr)
        sys.exit(1)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _hint(error: Exception) -> str:
    from nnhal.errors import DeadObjectError

    own_hint = getattr(error, "hint", "")
    if own_hint:
        return str(own_hint)
    if isinstance(error, DeadObjectError):
        return "is it running? 'nnhal up' starts devices and a framework"
    if isinstance(error, FileNotFoundError):
        return "check the path; it is relative to the present directory"
    return ""
