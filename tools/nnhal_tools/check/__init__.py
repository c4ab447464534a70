"""Checks of a device's process: whether it serves as docs/ says, whatever language it is written in."""

from nnhal_tools.check.check import CHECKS, Check
from nnhal_tools.check.groups import GROUPS
from nnhal_tools.check.report import BAD, Printed, show_list, write_junit
from nnhal_tools.check.runner import CheckResult, CheckVerdict, run_checks

__all__ = [
    "BAD",
    "CHECKS",
    "GROUPS",
    "Check",
    "CheckResult",
    "CheckVerdict",
    "Printed",
    "run_checks",
    "show_list",
    "write_junit",
]
