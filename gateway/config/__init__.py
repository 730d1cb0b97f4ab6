"""The operator's configuration: TOML, variables and the command line, read once into values.

`load` is all that the rest of the gateway needs; `settings.py` says what it hands out.
"""

from gateway.config.problems import ConfigError, Origin, Problem
from gateway.config.reader import Configuration, load, page_address
from gateway.config.settings import HostPort, Settings

__all__ = [
    "ConfigError",
    "Configuration",
    "HostPort",
    "Origin",
    "Problem",
    "Settings",
    "load",
    "page_address",
]
