"""A proposal as a schedule: which stripe runs when, and where each buffer lies."""
