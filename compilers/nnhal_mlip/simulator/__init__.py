"""Runs binaries: real arithmetic, modelled cycles."""
