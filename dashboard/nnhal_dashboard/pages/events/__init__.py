"""What has happened in the testbed, by kind, device, model, text and time."""
