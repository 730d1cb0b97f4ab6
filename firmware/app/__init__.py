"""The application of a battery sensor, over the library `mqttsn`; docs/node.md tells of it."""
