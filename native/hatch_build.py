"""Have hatchling build the libraries for a wheel, and for an install from the sources."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface[Any]):
    """Builds the libraries in their place in the package."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, and give the wheel the tag of this platform, or of that which NNHAL_NATIVE_PLATFORM names."""
        spec = importlib.util.spec_from_file_location("build_libraries", Path(self.root) / "build_libraries.py")
        assert spec is not None and spec.loader is not None
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        builder.build()
        platform = os.environ.get("NNHAL_NATIVE_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(
            ".", "_"
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
