"""Probes in the framework: Python imports this when it starts, if its folder is on the path.

The framework is forked from a zygote, which has its modules.
"""

import os
import sys

if "nnhal_service.process" in sys.orig_argv:
    from benchmarks.serve.breakdown.probes import FILE, install

    install(os.environ[FILE])
