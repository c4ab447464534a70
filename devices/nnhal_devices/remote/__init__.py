"""remote: a device on another host, which this host uses over one connection. See README.md."""
