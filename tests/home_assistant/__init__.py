"""A real Home Assistant beside the gateway and a broker: `make home-test`."""
