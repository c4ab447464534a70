"""hatchling, which says what a package is without building its libraries.

To pip it offers no metadata by itself, so that pip would build the whole wheel for them, and then build it again.
"""

from __future__ import annotations

import os

_PIP = "PIP_BUILD_TRACKER"
_tracker = os.environ.pop(_PIP, None)

from hatchling.build import *  # noqa: E402, F403 - what it offers depends on the variable

if _tracker is not None:
    os.environ[_PIP] = _tracker
