"""The runs: those that wait and run, those that have ended, and recordings of their steps."""
