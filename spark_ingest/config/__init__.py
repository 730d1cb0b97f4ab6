"""One TOML to frozen settings, or every mistake in it at once.

The gateway has such machinery too, bound to its own table of keys; the two programs share only the
reading of MQTT 5 packets, so that each can be changed without the other. This one is a quarter of
its size: no environment variables, no arrays of arrays, and places are only sought when there is a
mistake. Why there is no library for it: docs/decisions/0027-settings-without-pydantic.md.
"""

from spark_ingest.config.problems import ConfigError
from spark_ingest.config.reader import load
from spark_ingest.config.settings import Settings

__all__ = ["ConfigError", "Settings", "load"]
