"""Executions: bound to memory, admitted, run, launched, and ended if they should have ended."""
