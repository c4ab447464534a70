"""versions.md: versions of interfaces and files, and what an older and a newer one gets."""

from __future__ import annotations

from nnhal.link.client import PROTOCOL_VERSION
from nnhal.memory.hardware_buffer import VERSION as BUFFER_VERSION
from nnhal.recording.file_form import VERSION as RECORDING_VERSION
from nnhal_cascade.stream.binary import VERSION as STREAM_VERSION
from nnhal_dashboard.monitoring.history_file import FORM
from nnhal_devices import wire
from nnhal_devices.driver import BACKEND_API_VERSION
from nnhal_devices.dynamic.loader import C_API_VERSION
from nnhal_hosting.faults.document import VERSION as FAULTS_VERSION
from nnhal_tools.up.topology import VERSION as TOPOLOGY_VERSION
from tests.reference.markdown import table

_PAGE = """# Versions and upgrades

Processes, clients and files of two versions of nnhal meet when hosts are upgraded one after the other. The
[changelog](../../CHANGELOG.md) says what is new in each version.

{rows}

A field of a topology or a file of faults that this nnhal does not know is refused with its name.

## Upgrade a testbed

Stop and start one process after the other, devices first. The framework plans without a device that is away, and with
it when it is back. Sessions of native clients end with their process; `nnhal_client` opens new ones. A device of the
last release serves this framework. A framework of the last release serves this client and uses this device. CI runs
each pair.

## Make a release

    make release          # build sdists and wheels into dist/, install each into an empty environment, and try it

1. Give `pyproject.toml`, `native/pyproject.toml`, `frontends/ort_ep/pyproject.toml` and the `version` of each driver
   the new number. A test finds a number that was left. Date the section of the changelog.
2. Run `cd proto && buf build . --exclude-source-info -o released.binpb.gz`, and commit. Set `LAST_RELEASE` of the test
   of the last release to that commit.
3. Run `make release`, then `deploy/publish` for images ([deploy.md](../deploy.md)).
"""
_MAJOR, _MINOR = BACKEND_API_VERSION
_AGAIN = "not found, and compiled again"


def _protocol(version: int) -> str:
    return f'version {version + 1} is refused: "protocol version {version + 1}, expected {version}"'


def _form(what: str, version: int) -> str:
    return f'refused: "{what} of version {version + 1}; this nnhal reads version {version}"'


_ROWS = (
    (
        "link, between processes of one host",
        f"`PROTOCOL_VERSION` {PROTOCOL_VERSION}, and capabilities ([protocol.md](protocol.md#a-session))",
        "works: a side uses only what the other announces",
        f"{_protocol(PROTOCOL_VERSION)}. New capabilities are not used",
    ),
    (
        "libraries in C++ (ONNX Runtime, NDK, delegates), and the framework",
        "capability `CALLS` of the link ([protocol.md](protocol.md#calls-over-the-link))",
        "served over gRPC",
        'refused: "the process serves no calls over its link"',
    ),
    (
        "messages of `proto/nnhal/v1`",
        "none: fields and methods are only added",
        "works: a missing field has the meaning of its absence",
        "works: unknown fields are skipped, a missing method is named or done without",
    ),
    ("wire, between hosts", f"`PROTOCOL_VERSION` {wire.PROTOCOL_VERSION}", "works", _protocol(wire.PROTOCOL_VERSION)),
    (
        "Open Inference Protocol",
        "V2 ([serve.md](../serve.md))",
        "works",
        "unknown fields are skipped or refused, as that protocol says",
    ),
    (
        "driver interface and backend files",
        f"`BACKEND_API_VERSION` {_MAJOR}.{_MINOR} ([write_a_device.md](../write_a_device.md))",
        f"{_MAJOR}.0 to {_MAJOR}.{_MINOR - 1} load",
        f"{_MAJOR}.{_MINOR + 1} or {_MAJOR + 1}.0 is refused with both versions; the process serves its other drivers",
    ),
    (
        "backends in C",
        f"`C_API_VERSION` {'.'.join(map(str, C_API_VERSION))}, the header's",
        "loads",
        "refused in the same words",
    ),
    (
        "drivers in Python packages",
        "none: the class of the entry point is asked for its members",
        "a member with a default may be missing",
        "as the older one",
    ),
    (
        "recordings of devices (`.nnrec`)",
        f"{RECORDING_VERSION}, in the header",
        "there is none",
        f'refused: "a recording of version {RECORDING_VERSION + 1}, written by nnhal …; this one reads version '
        f'{RECORDING_VERSION}"',
    ),
    ("compilation caches of the framework", "the device's `version`, in each token", _AGAIN, _AGAIN),
    ("compilation caches of a device", "the driver's `version`, in each key", _AGAIN, _AGAIN),
    (
        "entries of cpu_acc, ethos_u and mlip in caches",
        f"a magic, or {STREAM_VERSION} for command streams",
        "is not used, and compiled again",
        "is not used, and compiled again",
    ),
    ("plans as JSON", "none: fields are only added, and nnhal does not read plans", "", ""),
    (
        "topologies",
        f"{TOPOLOGY_VERSION}, in `version`, which may be left out ([topology.md](topology.md))",
        "works",
        _form("a topology", TOPOLOGY_VERSION),
    ),
    (
        "files of faults",
        f"{FAULTS_VERSION}, in `version`, which may be left out",
        "works",
        _form("faults", FAULTS_VERSION),
    ),
    (
        "history of the dashboard",
        f"`FORM` {FORM}, in the file",
        "there is none",
        f'begun anew: "it has form {FORM + 1}, expected {FORM}"',
    ),
    (
        "journals: events, runs and logs of processes",
        "none: they live in the memory of their process",
        "",
        "a new process begins with none",
    ),
    (
        "handles of hardware buffers",
        f"{BUFFER_VERSION}, in the handle",
        "there is none",
        f'refused: "its handle has … version {BUFFER_VERSION + 1} …, expected … {BUFFER_VERSION}"',
    ),
)


def versions_page() -> str:
    """Return the page."""
    return _PAGE.format(rows=table(("what", "its version", "an older one here", "a newer one here"), _ROWS))
