"""TDS 7.4 and 8.0 on loopback: everything between a socket and `results.Backend`."""
