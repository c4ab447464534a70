"""Loading a model on devices: what it would be, in whole or in parts, and what it becomes."""
