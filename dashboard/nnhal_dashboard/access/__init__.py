"""Visitors of the dashboard: browsers that have signed in, what they may do, and which requests are let in at all."""
