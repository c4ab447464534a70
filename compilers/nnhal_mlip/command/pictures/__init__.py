"""Pictures of modelled runs, as SVG."""
