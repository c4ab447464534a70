"""What the drivers of NPUs share: rules of support, and groups of operations that are compiled together."""
