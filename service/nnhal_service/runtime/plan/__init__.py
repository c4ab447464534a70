"""From an imported model to a plan whose steps are prepared on their devices."""
