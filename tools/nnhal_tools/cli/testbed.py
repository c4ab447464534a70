"""``nnhal testbed``: the testbed in containers, from the folder that has docker-compose.yml."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from nnhal.errors import NnhalError
from nnhal.given_files import read_given_text

_FILE = "docker-compose.yml"
_PUBLISHED = "deploy/published.env"
_REQUEST = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.0] * 64}]}
_LOOK_SECONDS = 0.5
_WITHOUT_A_REGISTRY = (
    "without a registry: deploy/base.sh && deploy/wheels.sh && NNHAL_BASE=nnhal-base:bookworm nnhal testbed try; "
    "without containers: nnhal up --model-repository models"
)
app = typer.Typer(help="Start a testbed in containers, and try it.", no_args_is_help=True, add_completion=False)


class ContainersError(NnhalError):
    """A step has failed; ``hint`` says the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@app.callback()
def _testbed() -> None:
    """Start a testbed in containers, and try it."""


@app.command("try")
def try_it(
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of docker-compose.yml: a clone of the repository.")
    ] = Path(),
    registry: Annotated[
        str, typer.Option(help="Pull the images of this version from there, such as localhost:5000 or ghcr.io/team.")
    ] = "",
    seconds: Annotated[float, typer.Option(help="How long to wait until it serves.", min=1, max=3600)] = 300,
) -> None:
    """Start the testbed of docker-compose.yml, run one inference, and print tokens and addresses.

    Images are pulled from --registry, or from where deploy/publish has put them last, else built.
    """
    if not (folder / _FILE).is_file():
        raise ContainersError(f"{(folder / _FILE).absolute()} is missing", "--folder names a clone of the repository")
    variables = _images(folder, registry)
    compose = [*_program(), "--file", str(folder / _FILE)]
    if variables:
        _run([*compose, "--profile", "test", "pull", "--quiet"], variables, "the images cannot be pulled")
    _run([*compose, "up", "--detach", *(["--no-build"] if variables else [])], variables, "the testbed does not start")
    token, look = (
        _run([*compose, "run", "--rm", "secrets", "--show", role], variables, "there is no token").strip()
        for role in ("infer", "view")
    )
    http, dashboard = (
        _run([*compose, "port", service, str(port)], variables, f"{service} has no port").strip()
        for service, port in (("framework", 8000), ("dashboard", 8003))
    )
    scores = _answer(f"http://{http}/v2/models/digits/infer", token, seconds)
    typer.echo(f"""digits has answered: {len(scores)} scores, the highest for {scores.index(max(scores))}
V2 over HTTP:        http://{http}/v2
its token:           {token}
dashboard:           http://{dashboard}
its token:           {look}
again:               curl -H "Authorization: Bearer $TOKEN" http://{http}/v2/models/digits
its end:             {" ".join(compose)} down""")


def _images(folder: Path, registry: str) -> dict[str, str]:
    """The variables of docker-compose.yml that have images pulled; none if they are to be built."""
    if registry:
        names = {"NNHAL_IMAGE": "nnhal", "NNHAL_CLIENT_IMAGE": "nnhal-client"}
        images = {variable: f"{registry}/{name}:{version('nnhal')}" for variable, name in names.items()}
        return {**images, "NNHAL_PULL": "if_not_present", "NNHAL_BUILD": "if_not_present"}
    if not (folder / _PUBLISHED).is_file():
        return {}
    lines = read_given_text(folder / _PUBLISHED, "the registry of images").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines) if name}


def _program() -> Sequence[str]:
    """The command of Compose, of either generation. Raises ContainersError without it or without an engine."""
    if shutil.which("docker") is None or not _works("docker", "version"):
        raise ContainersError(
            "no Docker engine answers", "apt-get install docker.io docker-compose; or without containers: nnhal up"
        )
    if _works("docker", "compose", "version"):
        return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise ContainersError("there is neither 'docker compose' nor docker-compose", "apt-get install docker-compose")


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str], variables: Mapping[str, str], failure: str) -> str:
    """Run a command, whose progress is shown, and return its output. Raises ContainersError."""
    done = subprocess.run(command, env=os.environ | dict(variables), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ContainersError(
            f"{failure}: {' '.join(command)} ended with status {done.returncode}", _WITHOUT_A_REGISTRY
        )
    return done.stdout


def _answer(url: str, token: str, seconds: float) -> list[float]:
    """The scores of one inference, asked for until it is answered. Raises ContainersError."""
    end = time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    while True:
        try:
            request = urllib.request.Request(url, json.dumps(_REQUEST).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return [float(score) for score in json.load(answer)["outputs"][0]["data"]]
        except (OSError, urllib.error.URLError) as error:
            if time.monotonic() > end:
                raise ContainersError(
                    f"{url} has not answered for {seconds:g} s: {error}", "docker compose logs framework"
                ) from None
        time.sleep(_LOOK_SECONDS)
