"""Arm's Vela beside nnhal's cascading compiler, live; docs/cascading.md describes it."""
