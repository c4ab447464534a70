"""Recording what clients ask of a device. Imported by processes only that were started with --allow-recording."""
