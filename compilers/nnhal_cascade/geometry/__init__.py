"""Map from a part of an operator's output to the part of its inputs that it needs."""
