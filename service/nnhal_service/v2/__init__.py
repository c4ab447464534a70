"""The Open Inference Protocol V2: its fronts, and what they share."""
