"""``nnhal ray``: nnhal on the hosts of a Ray cluster, from the first host to the last, until interrupted."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnhal_hosting.extras import install_command

if TYPE_CHECKING:
    from nnhal_ray.nodes import RayNode

app = typer.Typer(
    help="Serve models on several hosts by Ray Serve: start the cluster, or join it.",
    no_args_is_help=True,
    add_completion=False,
)

_LOOK_SECONDS = 1.0
Listen = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="This host's address for other hosts. All of Ray then listens at all interfaces."
    ),
]
Resource = Annotated[
    list[str] | None, typer.Option(metavar="NAME=NUMBER", help="What this host has, such as npu=1; may be repeated.")
]


@app.callback()
def _ray() -> None:
    """Serve models on several hosts by Ray Serve: start the cluster, or join it."""


@app.command()
def up(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…", help="Arguments of the application, such as model_repository=/srv/models."
        ),
    ],
    listen: Listen = "127.0.0.1",
    http_port: Annotated[int, typer.Option(help="The port of HTTP.", min=1, max=65535)] = 8000,
    grpc_port: Annotated[int, typer.Option(help="The port of gRPC.", min=1, max=65535)] = 9000,
    port: Annotated[int, typer.Option(help="Ray's own port, where other hosts join.", min=1, max=65535)] = 6379,
    resource: Resource = None,
    seconds: Annotated[float, typer.Option(help="How long all hosts together may take to serve.", min=1)] = 720.0,
) -> None:
    """Start a cluster on this host, deploy nnhal on it, and serve until SIGINT or SIGTERM.

    Nothing listens but at the loopback, unless --listen says otherwise. Users of this host who reach Ray's ports need
    the cluster's token, which is in a file that only its owner may read. Without --listen and tokens=FILE every user of
    this host may run models: give tokens, or insecure=true.
    """
    from pydantic import ValidationError

    from nnhal_hosting.settings import describe_invalid
    from nnhal_ray.nodes import LOOPBACK
    from nnhal_ray.options import ScaleOutOptions

    try:
        options = ScaleOutOptions.model_validate(_given(arguments))
    except ValidationError as error:
        raise ValueError(describe_invalid(error)) from error
    with _node(listen, ["--head", f"--port={port}", "--include-dashboard=false"], resource) as (node, token):
        import ray

        from nnhal_ray import deploying

        is_local = listen == LOOPBACK
        deploying.connect(f"{listen}:{port}")
        try:
            deploying.deploy(options, LOOPBACK if is_local else "0.0.0.0", http_port, grpc_port, seconds, _say)
            _say(f"V2 over HTTP:  http://{listen}:{http_port}/v2")
            _say(f"V2 over gRPC:  {listen}:{grpc_port}")
            if not is_local:
                _say(f"others join:   nnhal ray join {listen}:{port} --listen ADDRESS --token FILE")
                _say(f"their token:   {token}")
            _until_interrupted(node)
        finally:
            ray.shutdown()  # before its node ends, which would end this process too


@app.command()
def join(
    address: Annotated[str, typer.Argument(metavar="ADDRESS:PORT", help="Where the first host's Ray listens.")],
    token: Annotated[Path, typer.Option(metavar="FILE", help="The file with the token that 'nnhal ray up' has named.")],
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="This host's address for other hosts.")],
    resource: Resource = None,
) -> None:
    """Have this host join a cluster, and serve with it until SIGINT or SIGTERM."""
    with _node(listen, [f"--address={address}"], resource, token.resolve()) as (node, _):
        _say(f"joined {address}: Ray starts a host here when it needs one")
        _until_interrupted(node)
        _say("stopping")


@contextmanager
def _node(
    listen: str, role: Sequence[str], resource: Sequence[str] | None, token: Path | None = None
) -> Iterator[tuple[RayNode, Path]]:
    """A node until the context ends; without ``token``, with a new one."""
    if find_spec("ray") is None:
        raise ValueError(f"Ray is missing: {install_command('ray')}")
    from nnhal_ray import nodes

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)  # until all serve
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="nnray-", ignore_cleanup_errors=True)))
        if token is None:
            token = directory / "token"
            nodes.new_token(token)
        variables = nodes.environment(directory, token, listen)
        os.environ.update(variables)  # this process deploys, and Ray reads them when it is imported
        words = [*role, f"--node-ip-address={listen}"]
        words += [f"--temp-dir={directory / 'ray'}"] if "--head" in role else []
        try:
            _say("Ray starts on this host")
            yield undo.enter_context(nodes.RayNode(directory, variables, words, _resources(resource or ()))), token
        except KeyboardInterrupt:
            _say("stopped before all hosts served")
            raise typer.Exit(1) from None


def _until_interrupted(node: RayNode) -> None:
    """Raises NodeError if the node ends before."""
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    while not interrupted.wait(_LOOK_SECONDS):
        node.require_runs()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _given(arguments: Sequence[str]) -> dict[str, object]:
    """The arguments by name; a value that is a list or a table is JSON. Raises ValueError."""
    found: dict[str, object] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign:
            raise ValueError(f"{argument!r}, expected NAME=VALUE, such as model_repository=/srv/models")
        found[name] = json.loads(value) if value.startswith(("[", "{")) else value
    return found


def _resources(given: Sequence[str]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for each in given:
        name, _, number = each.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise ValueError(f"--resource {each!r}, expected NAME=NUMBER, such as npu=1") from None
    return found
