"""The last minutes as charts, without anything beside the dashboard."""
