"""A node with a key: its packets are protected, and it says nothing that is not.

The key and what belongs to it are in /secrets.json (given.py); counters are in the flash, saved a
thousand at a time. A flash that does not take them costs a question of the gateway after each boot,
and nothing else: a node that is not in step is asked, never turned away.
"""

from ..mqttsn.protect import Protected
from .given import COUNTERS_PATH
from .link import FRAME_OCTETS
from .log import ERROR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files
    from .log import Log


def protected(transport: "Any", secrets: "dict[str, Any]", files: "Files", log: "Log") -> Protected:
    def save(counters: bytes) -> None:
        try:
            files.save(COUNTERS_PATH, counters)
        except OSError as error:
            log(ERROR, "flash: " + repr(error))

    return Protected(
        transport,
        secrets["device_sender"],
        secrets["device_key"],
        files.load(COUNTERS_PATH) or b"",
        save,
        epoch=secrets["device_key_epoch"],
        size=FRAME_OCTETS,
        scheme=secrets["device_scheme"],
    )
