"""A DTLS client of MicroPython for the tests; pipe.h says what it does with descriptor 0 and with
its arguments. There are no pre-shared keys in it before 1.29, so it has certificates alone.

With a socket that waits, its Mbed TLS would not repeat what was lost. Before the handshake is
complete `cipher` ends the interpreter, so it is made at once.
"""

import errno
import select
import socket
import sys

import ffi
import tls

BYTES_MAX = 16384
libc = ffi.open("libc.so.6")
read = libc.func("i", "read", "ipi")
write = libc.func("i", "write", "ipi")


def received():
    """The message of one record, which `read` would join with the next one; None without any."""
    try:
        return peer.recv(BYTES_MAX)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
    return None


def content(path):
    with open(path, "rb") as file:
        return file.read()


port, suite, _, authority, certificate, key = sys.argv[1:]
context = tls.SSLContext(tls.PROTOCOL_DTLS_CLIENT)
context.verify_mode = tls.CERT_REQUIRED
context.load_verify_locations(content(authority))
context.load_cert_chain(content(certificate), content(key))
context.set_ciphers([suite])
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plain.connect(socket.getaddrinfo("127.0.0.1", int(port))[0][-1])
plain.setblocking(False)
peer = context.wrap_socket(plain, server_hostname="localhost")
write(0, b"open", 4)
messages = select.poll()
messages.register(sys.stdin, select.POLLIN)
room = bytearray(BYTES_MAX)
while True:
    if messages.poll(5):
        size = read(0, room, len(room))
        if size <= 0:
            break
        peer.write(room[:size])
    while message := received():
        write(0, message, len(message))
peer.close()
