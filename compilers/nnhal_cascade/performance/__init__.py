"""What a stripe costs: cycles, multiply-adds and bytes."""
