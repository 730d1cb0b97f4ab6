"""The names that the daemon imports, until it takes them from where they are now."""

from __future__ import annotations

from gateway.state.errors import StateError as StateError
from gateway.state.folder import EPOCH_FILE as EPOCH_FILE
from gateway.state.folder import StateFolder as StateFolder
from gateway.state.folder import open_state as open_state
