"""Have hatchling build a package's libraries with this core, for a wheel and for an install from the sources.

The package has this folder as ``core``, and names its builder and the variable of its platform in pyproject.toml.
"""

from __future__ import annotations

import os
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface[Any]):
    """Builds the libraries in their place in the package."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build them, and give the wheel the tag of this platform, or of that which the package's variable names."""
        runpy.run_path(str(Path(self.root) / self.config["builder"]))["build"]()
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get(self.config['platform-variable']) or here}"
