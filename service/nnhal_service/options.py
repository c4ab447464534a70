"""The options of the framework process. Those of the V2 servers have the names of Triton's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import add_supervision_argument
from nnhal_service.repository import ControlMode

_TRUE, _FALSE = ("true", "1", "on"), ("false", "0", "off")
_NO_SETTINGS = ("endpoint", "devices", "supervisor")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
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
    _add_models(parser.add_argument_group("models"))
    _add_fronts(parser.add_argument_group("fronts"))
    _add_access(parser.add_argument_group("access"))
    add_supervision_argument(parser)
    return parser


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives."""
    given = vars(arguments).items()
    return {name: value for name, value in given if name not in _NO_SETTINGS and value is not None}


def _add_models(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model-repository", metavar="DIR", action="append", help="a folder of models to serve; may be given again"
    )
    group.add_argument(
        "--model-control-mode",
        choices=[mode.value for mode in ControlMode],
        help="what decides which models are loaded (default none: all at the start)",
    )
    group.add_argument(
        "--load-model", metavar="NAME", action="append", help="in mode explicit: load it at the start; '*' for all"
    )
    group.add_argument("--repository-poll-secs", metavar="S", help="in mode poll: how often to check (default 15)")
    group.add_argument(
        "--unload-secs", metavar="S", help="how long requests of a model may take once it is unloaded (default 30)"
    )
    group.add_argument(
        "--hang-secs", metavar="S", help="how long a device may not answer at all while a run waits (default 2)"
    )
    group.add_argument(
        "--stall-secs", metavar="S", help="how long a device may do nothing about a model that is loaded (default 10)"
    )
    group.add_argument(
        "--calibration", metavar="FILE", help="plan by what 'nnhal calibrate' has measured of devices on this machine"
    )
    group.add_argument(
        "--max-models", metavar="N", help="versions loaded at a time, and models of a native client (default 1024)"
    )
    group.add_argument(
        "--substitute-bytes",
        metavar="BYTES",
        help="of constants in plans that are kept ready for the death of a device (default 1 GiB, 0 for no such plans)",
    )
    group.add_argument("--model-config-name", metavar="NAME", help="use configs/NAME.pbtxt if a model has it")
    _add_flag(group, "--strict-readiness", "be ready only when every model of the start serves (default true)")
    _add_flag(group, "--exit-on-error", "end if a model fails at the start (default true)")
    group.add_argument("--cache-directory", metavar="DIR", help="the directory of cached compilations (default none)")


def _add_fronts(group: argparse._ArgumentGroup) -> None:
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        _add_flag(group, f"--allow-{name}", f"serve {name} (default true)")
        group.add_argument(f"--{name}-host", metavar="ADDRESS", help="the address to listen at (default 127.0.0.1)")
        group.add_argument(f"--{name}-port", metavar="PORT", help=f"0 for any that is free (default {port})")
    group.add_argument("--http-max-input-size", metavar="BYTES", help="of a body (default 64 MiB)")
    group.add_argument("--http-max-head-size", metavar="BYTES", help="of the head of a request (default 32 KiB)")
    group.add_argument("--http-max-headers", metavar="N", help="in the head of a request (default 128)")
    group.add_argument("--http-max-connections", metavar="N", help="at a time (default 1024)")
    group.add_argument(
        "--http-stalled-secs",
        metavar="S",
        help="for a whole head, and for any progress of a body (default 10)",
    )
    group.add_argument("--http-idle-secs", metavar="S", help="for a connection without a request (default 60)")
    group.add_argument("--grpc-max-connections", metavar="N", help="at a time, at each address (default 1024)")
    group.add_argument("--grpc-max-message-size", metavar="BYTES", help="of a message (default 2 GiB)")
    group.add_argument(
        "--front-workers", metavar="N", help="processes that serve HTTP and gRPC together (default 1: this one)"
    )
    group.add_argument(
        "--inference-threads", metavar="N", help="threads that decode, copy and encode large tensors (default 16)"
    )
    group.add_argument(
        "--request-memory", metavar="BYTES", help="that all requests hold at a time (default 4 GiB, 0 for no limit)"
    )
    _add_flag(group, "--allow-client-shm", "let clients register files in /dev/shm (default false)")
    group.add_argument(
        "--metrics-config",
        metavar="KEY=VALUE",
        action="append",
        help="summary_latencies=true and so on; see docs/observability.md",
    )
    group.add_argument("--trace-directory", metavar="DIR", help="the directory of trace files (default none)")
    group.add_argument(
        "--trace-config", metavar="KEY=VALUE", action="append", help="level=TIMESTAMPS, rate=1 and so on"
    )


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tokens", metavar="FILE", help="bearer tokens with their roles; see docs/access.md")
    group.add_argument(
        "--allowed-host",
        dest="allowed_hosts",
        metavar="NAME",
        action="append",
        help="a name that requests over HTTP may have as their Host, '*' for any; may be given again",
    )
    group.add_argument("--rate-limit", metavar="N", help="requests a second of one client (default no limit)")
    group.add_argument("--tls-certificate", metavar="FILE", help="PEM; with --tls-key all ports speak TLS")
    group.add_argument("--tls-key", metavar="FILE", help="PEM")
    group.add_argument("--tls-client-authority", metavar="FILE", help="PEM: clients need a certificate of it")
    group.add_argument(
        "--admin-key",
        metavar="FILE",
        help="the key that operators of this process show: a file of its own user, with mode 0600 or 0400; for "
        "processes that systemd or containers supervise, since nnhal up gives its processes a key by itself",
    )
    _add_flag(group, "--insecure", "listen beyond this host without TLS and tokens (default false)")


def _add_flag(group: argparse._ArgumentGroup, name: str, text: str) -> None:
    """``--flag``, ``--flag=true`` or ``--flag=false``."""
    group.add_argument(name, type=_flag, nargs="?", const=True, metavar="BOOL", help=text)


def _flag(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise argparse.ArgumentTypeError(f"{text!r}: expected true or false")
    return text.lower() in _TRUE


def _device(text: str) -> tuple[str, Endpoint]:
    name, separator, directory = text.partition("=")
    if not (name and separator and directory):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=DIR")
    return name, Endpoint(Path(directory).resolve())
