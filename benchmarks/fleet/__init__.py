"""How many hosts a load needs: requests replayed over simulated hosts that behave as measured ones."""
