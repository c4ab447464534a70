"""Rules of the contract, asked of a device's process over its sockets, whatever language it is written in.

A rule is one sentence, the rows of the contract that it shows, and a function that asks a device. ``nnhal check`` asks
them; ``pytest --nnhal-device DIR --pyargs nnhal_conformance`` has each as a test.
"""

from nnhal_conformance.device import Known
from nnhal_conformance.rule import RULES, Rule
from nnhal_conformance.rules import GROUPS
from nnhal_conformance.runner import BAD, RuleResult, Verdict, ask_rule, ask_rules

__all__ = ["BAD", "GROUPS", "RULES", "Known", "Rule", "RuleResult", "Verdict", "ask_rule", "ask_rules"]
