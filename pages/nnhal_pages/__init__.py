"""Looks of plans and figures: pages, tables and pictures, as text without script."""
