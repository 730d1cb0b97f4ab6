"""A TLS server, blocking and in a thread: asyncio's never sends its alerts to the client."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def tls_server(context: ssl.SSLContext, *, after_handshake: str = "stay") -> Iterator[int]:
    """Its port. `after_handshake`: "stay" until the client leaves, or "close" without a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=_serve, args=(listener, context, after_handshake))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext, after_handshake: str) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            accepted.settimeout(30)
            with suppress(OSError):
                _greet(accepted, context, after_handshake)
            accepted.close()


def _greet(accepted: socket.socket, context: ssl.SSLContext, after_handshake: str) -> None:
    with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as secured:
        try:
            secured.do_handshake()
        except ssl.SSLError:
            # Leaves in peace: to close with unread bytes would reset the connection, alert and all.
            accepted_shutdown(secured)
            return
        if after_handshake == "stay":
            while secured.recv(4096):
                pass


def accepted_shutdown(secured: ssl.SSLSocket) -> None:
    socket.socket.shutdown(secured, socket.SHUT_WR)
    while socket.socket.recv(secured, 4096):
        pass
