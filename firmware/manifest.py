"""For a MicroPython build of one's own: the library in flash, where it takes next to no heap.

make BOARD=... FROZEN_MANIFEST=.../firmware/manifest.py
"""

package(  # type: ignore[name-defined]  # noqa: F821, what a manifest may call
    "mqttsn",
    files=(
        "__init__.py",
        "aio.py",
        "ccm.py",
        "client.py",
        "engine.py",
        "framing.py",
        "protect.py",
        "search.py",
        "snapshot.py",
        "uart.py",
        "udp.py",
        "will.py",
    ),
    opt=3,
)
