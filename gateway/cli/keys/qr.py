"""A key as a QR code in the terminal: one line of text, for the program that sets the device up.

    tidegate:key/1?name=tank&client=tank&sender=0123456789abcdef&epoch=1&key=00112233...

What stands behind the question mark is encoded as in the query of a URL (RFC 3986, 3.4). `sender`
and `key` are hexadecimal digits. A reader passes over names that it does not know.
"""

import io
from urllib.parse import urlencode

from gateway.storage.keys.records import StoredKey


def text_of(key: StoredKey) -> str:
    """What is in the code."""
    told = {
        "name": key.name,
        "client": key.client,
        "sender": key.sender_id.hex(),
        "epoch": key.epoch,
        "key": key.secret.hex(),
    }
    return f"tidegate:key/1?{urlencode(told)}"


def code_of(text: str) -> str | None:
    """Lines for a terminal; None where what makes codes is not installed."""
    try:
        import segno
    except ModuleNotFoundError:
        return None
    lines = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(out=lines, compact=True)
    return lines.getvalue()
