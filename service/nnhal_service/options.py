"""The options of the framework process. Those of the V2 servers have the names of Triton's.

``nnhal up`` takes them too: ``python -m nnhal_service.options WORDS…`` finds them among its words.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nnhal.endpoint import Endpoint
from nnhal_hosting.settings import describe_invalid
from nnhal_hosting.supervision import add_supervision_argument
from nnhal_service.repository import ControlMode
from nnhal_service.settings import ServiceSettings

_TRUE, _FALSE = ("true", "1", "on"), ("false", "0", "off")
_NO_SETTINGS = ("endpoint", "devices", "supervisor")
_SETTINGS = {"allowed_host": "allowed_hosts"}
"""Settings that are not called as their options."""
_NOT_OF_UP = ("--model-repository", "--hang-secs", "--admin-key")
"""Options of which ``nnhal up`` has its own, or which its framework does not need."""

_Add = Callable[..., Any]


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "nnhal serve",
        description="Serve models, split over devices that run already, until SIGTERM or SIGINT.",
        epilog="DIR gets two sockets: framework.sock speaks gRPC, link.sock passes descriptors. With a repository "
        "the Open Inference Protocol V2 is served too, over HTTP and gRPC; the latter at DIR/inference.sock as well. "
        "NNHAL_SERVICE_* in the environment sets what the options set, and the limits that have no option.",
    )
    parser.add_argument("--endpoint", metavar="DIR", type=Path, required=True, help="the directory for the two sockets")
    parser.add_argument(
        "--device",
        dest="devices",
        type=_device,
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="a device and its directory; once for each, in order of preference",
    )
    parser.add_argument("--log-level", help="debug, info, warning or error (default warning)")
    _add_models(parser.add_argument_group("models").add_argument)
    _add_fronts(parser.add_argument_group("fronts").add_argument)
    _add_access(parser.add_argument_group("access").add_argument)
    add_supervision_argument(parser)
    return parser


def main() -> int:
    """Find the options among the words of ``nnhal up`` and check them. Returns 2 if one is wrong.

    Prints JSON: the ``framework`` of a topology with these options, and the other words as ``rest``.
    """
    parser = argparse.ArgumentParser("nnhal up", add_help=False, allow_abbrev=False)

    def add(*names: str, **described: Any) -> None:
        if names[0] not in _NOT_OF_UP:
            parser.add_argument(*names, **described)

    for add_some in (_add_models, _add_fronts, _add_access):
        add_some(add)
    arguments, rest = parser.parse_known_args()
    try:
        ServiceSettings(**options_of(arguments))
    except ValidationError as error:
        print(f"nnhal up: {describe_invalid(error)}", file=sys.stderr)
        return 2
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    print(json.dumps({"framework": given, "rest": rest}))
    return 0


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    given = vars(arguments).items()
    return {_SETTINGS.get(name, name): value for name, value in given if name not in _NO_SETTINGS and value is not None}


def _add_models(add: _Add) -> None:
    add("--model-repository", metavar="DIR", action="append", help="a folder of models to serve; may be given again")
    add(
        "--model-control-mode",
        choices=[mode.value for mode in ControlMode],
        help="what decides which models are loaded (default none: all at the start)",
    )
    add("--load-model", metavar="NAME", action="append", help="in mode explicit: load it at the start; '*' for all")
    add("--repository-poll-secs", metavar="S", help="in mode poll: how often to check (default 15)")
    add("--unload-secs", metavar="S", help="how long requests of a model may take once it is unloaded (default 30)")
    add("--hang-secs", metavar="S", help="how long a device may not answer at all while a run waits (default 2)")
    add("--stall-secs", metavar="S", help="how long a device may do nothing about a model that is loaded (default 10)")
    add("--calibration", metavar="FILE", help="plan by what 'nnhal calibrate' has measured of devices on this machine")
    add("--max-models", metavar="N", help="versions loaded at a time, and models of a native client (default 1024)")
    add(
        "--substitute-bytes",
        metavar="BYTES",
        help="of constants in plans that are kept ready for the death of a device (default 1 GiB, 0 for no such plans)",
    )
    add("--model-config-name", metavar="NAME", help="use configs/NAME.pbtxt if a model has it")
    _add_flag(add, "--strict-readiness", "be ready only when every model of the start serves (default true)")
    _add_flag(add, "--exit-on-error", "end if a model fails at the start (default true)")
    add("--cache-directory", metavar="DIR", help="the directory of cached compilations (default none)")


def _add_fronts(add: _Add) -> None:
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        _add_flag(add, f"--allow-{name}", f"serve {name} (default true)")
        add(f"--{name}-host", metavar="ADDRESS", help="the address to listen at (default 127.0.0.1)")
        add(f"--{name}-port", metavar="PORT", help=f"0 for any that is free (default {port})")
    add("--http-max-input-size", metavar="BYTES", help="of a body (default 64 MiB)")
    add("--http-max-head-size", metavar="BYTES", help="of the head of a request (default 32 KiB)")
    add("--http-max-headers", metavar="N", help="in the head of a request (default 128)")
    add("--http-max-connections", metavar="N", help="at a time (default 1024)")
    add(
        "--http-stalled-secs",
        metavar="S",
        help="for a whole head, and for any progress of a body (default 10)",
    )
    add("--http-idle-secs", metavar="S", help="for a connection without a request (default 60)")
    add("--grpc-max-connections", metavar="N", help="at a time, at each address (default 1024)")
    add("--grpc-max-message-size", metavar="BYTES", help="of a message (default 2 GiB)")
    add("--front-workers", metavar="N", help="processes that serve HTTP and gRPC together (default 1: this one)")
    add("--inference-threads", metavar="N", help="threads that decode, copy and encode large tensors (default 16)")
    add("--request-memory", metavar="BYTES", help="that all requests hold at a time (default 4 GiB, 0 for no limit)")
    _add_flag(add, "--allow-client-shm", "let clients register files in /dev/shm (default false)")
    add(
        "--metrics-config",
        metavar="KEY=VALUE",
        action="append",
        help="summary_latencies=true and so on; see docs/operate.md",
    )
    add("--trace-directory", metavar="DIR", help="the directory of trace files (default none)")
    add("--trace-config", metavar="KEY=VALUE", action="append", help="level=TIMESTAMPS, rate=1 and so on")


def _add_access(add: _Add) -> None:
    add("--tokens", metavar="FILE", help="bearer tokens with their roles; see docs/security.md")
    add(
        "--allowed-host",
        metavar="NAME",
        action="append",
        help="a name that requests over HTTP may have as their Host, '*' for any; may be given again",
    )
    add("--rate-limit", metavar="N", help="requests a second of one client (default no limit)")
    add("--tls-certificate", metavar="FILE", help="PEM; with --tls-key all ports speak TLS")
    add("--tls-key", metavar="FILE", help="PEM")
    add("--tls-client-authority", metavar="FILE", help="PEM: clients need a certificate of it")
    add(
        "--admin-key",
        metavar="FILE",
        help="the key that operators of this process show: a file of its own user, with mode 0600 or 0400. nnhal up "
        "gives its processes a key by itself",
    )
    _add_flag(add, "--insecure", "listen beyond this host without TLS and tokens (default false)")


def _add_flag(add: _Add, name: str, text: str) -> None:
    """``--flag``, ``--flag=true`` or ``--flag=false``."""
    add(name, type=_flag, nargs="?", const=True, metavar="BOOL", help=text)


def _flag(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise argparse.ArgumentTypeError(f"{text!r}: expected true or false")
    return text.lower() in _TRUE


def _device(text: str) -> tuple[str, Endpoint]:
    name, separator, directory = text.partition("=")
    if not (name and separator and directory):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=DIR")
    return name, Endpoint(Path(directory).resolve())


if __name__ == "__main__":
    sys.exit(main())
