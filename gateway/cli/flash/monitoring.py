"""`tidegate flash monitor`: what a board says, as text, and MQTT-SN frames by what they are."""

import argparse
import time

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.boards import kinds_of
from gateway.cli.live import printable
from gateway.cli.output import print_error, print_line
from gateway.config.spelling import shortened
from gateway.flashing.console import Console
from gateway.flashing.finding import found_ports, the_port
from gateway.frames import MalformedFrame, decode
from gateway.transports.serial.framing_choice import framing

MESSAGE_OCTETS_MAX = 1024
SHOWN_LETTERS_MAX = 160


def monitor(arguments: argparse.Namespace) -> int:
    """Until Ctrl-C. Raises FlashError when the port cannot be had, or goes."""
    port = the_port(found_ports(kinds_of(arguments)), arguments.port)
    if arguments.dry_run:
        print_line(f"would listen at {port.name}")
        return ExitCode.OK
    line = framing("hdlc", message_bytes_max=MESSAGE_OCTETS_MAX, chatter=_print_text)
    with Console(port.device) as console:
        print_error(f"listening at {port.name}; Ctrl-C ends it")
        while True:
            for message in line.feed(console.read(), time.monotonic()):
                _print_frame(message)


def _print_text(line: bytes) -> None:
    text = line.decode(errors="replace").rstrip()
    if text:
        print_line(printable(text))


def _print_frame(message: bytes) -> None:
    try:
        shown = str(decode(message))
    except MalformedFrame as error:
        shown = f"{message.hex()} ({error})"
    print_line(f"< {shortened(shown, SHOWN_LETTERS_MAX)}")
