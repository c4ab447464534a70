"""The options of a device process for faults."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnhal_devices.faults.injection import DeviceFaults


def add_fault_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--allow-faults",
        action="store_true",
        default=None,
        help="let the user who runs this process tell the device to misbehave: see 'nnhal faults'",
    )
    parser.add_argument(
        "--faults", metavar="FILE", type=Path, help="faults that it has from the start on; needs --allow-faults"
    )
    parser.add_argument("--started-again", action="store_true", default=None, help=argparse.SUPPRESS)


def faults_at_start(allowed: bool, file: Path | None, started_again: bool, directory: Path) -> DeviceFaults | None:
    """The faults of a device that serves in a directory; None if it takes none.

    Raises ValueError for faults that are not allowed, and FaultDocumentError for a file that is not as expected.
    """
    if not allowed:
        if file is not None:
            raise ValueError(f"got faults {file}, expected --allow-faults with them")
        return None
    # Processes that take no faults do not pay for reading what checks them.
    from nnhal_devices.faults.injection import DeviceFaults
    from nnhal_hosting.faults import device_of, read_faults_file

    name = device_of(directory)
    if file is None:
        return DeviceFaults(name)
    document = read_faults_file(file).of(name)
    return DeviceFaults(name, document.of_each_start() if started_again else document)
