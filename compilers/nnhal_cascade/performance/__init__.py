"""Cost of a stripe: cycles, multiply-adds and bytes."""
