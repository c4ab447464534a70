"""From a plan to transfers, stages and tasks."""
