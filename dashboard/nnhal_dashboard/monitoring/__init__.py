"""The dashboard's knowledge of the testbed: it asks all processes once a second, and never waits for one of them."""
