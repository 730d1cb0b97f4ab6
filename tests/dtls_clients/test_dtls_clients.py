"""Each client with each of its suites: a handshake, all of MQTT-SN, and an end, over a network
that loses every tenth datagram and copies as many.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from hil.faults.lossy_proxy import Impairment, LossyProxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    BlockingClient,
    framed,
    opened,
)
from tests.dtls_clients.clients import CLIENTS, Client, has_key
from tests.transports.certificates import Certificates

MBED_TLS = next(each for each in CLIENTS if each.name == "mbedtls")
KEY = bytes(range(16))
OPEN_S_MAX = 60.0
RETRY_S = 0.5
NETWORK = Impairment(loss=0.1, copies=0.1, delayed=0.0)


def where_built(client: Client) -> pytest.MarkDecorator:
    """A mark, so that no gateway is started where there is none."""
    absent = client.why_not_here()
    return pytest.mark.skipif(absent is not None, reason=f"{client.title}: {absent}")


CASES = [
    pytest.param(client, suite, id=f"{client.name}-{suite}", marks=where_built(client))
    for client in CLIENTS
    for suite in client.suites
]


class Site:
    """A gateway with a listener for keys and one for certificates."""

    def __init__(
        self, gateway: GatewayProcess, ports: dict[bool, int], certificates: Certificates
    ) -> None:
        self.gateway, self.ports, self.certificates = gateway, ports, certificates


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("dtls")
    made = Certificates(folder)
    hook = folder / "hook"
    hook.write_text(f"#!/bin/sh\necho {KEY.hex()}\n")
    hook.chmod(0o755)
    ports = {True: free_udp_port(), False: free_udp_port()}
    config = (
        f'[[udp]]\nlisten = "127.0.0.1:{ports[True]}"\nsecurity = "dtls-psk"\n'
        f'[[udp]]\nlisten = "127.0.0.1:{ports[False]}"\nsecurity = "dtls-cert"\n'
        f'[dtls]\nkey_hook = "{hook}"\nca = "{made.authority}"\n'
        f'certificate = "{made.server}"\nkey = "{made.key(made.server)}"\n'
        f'[log]\nlevel = "debug"\n[mqtt_sn]\nretry_after_s = {RETRY_S}\n'
    )
    with Mosquitto() as broker, GatewayProcess(folder, broker.url, config) as gateway:
        gateway.wait_until_connected()
        yield Site(gateway, ports, made)


class Answering:
    """The end of a client's descriptor 0, with the methods of a socket that the scripted client
    uses: what the gateway sends by itself is answered here, and kept.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.received: list[bytes] = []

    def send(self, message: bytes) -> None:
        self._end.send(message)

    def recv(self, size: int) -> bytes:
        message = self._end.recv(size)
        assert message, "the client has ended"
        kind, body = opened(message)
        if kind == REGISTER:
            self.send(framed(REGACK, body[:4] + b"\x00"))
        elif kind == PUBLISH:
            self.received.append(body[5:])
            qos = body[0] >> 5 & 3
            if qos == 1:
                self.send(framed(PUBACK, body[1:5] + b"\x00"))
            elif qos == 2:
                self.send(framed(PUBREC, body[3:5]))
        elif kind == PUBREL:
            self.send(framed(PUBCOMP, body))
        return message

    def fileno(self) -> int:
        return self._end.fileno()

    def settimeout(self, seconds: float | None) -> None:
        self._end.settimeout(seconds)

    def close(self) -> None:
        self._end.close()


@contextmanager
def sensor(
    client: Client, port: int, suite: str, name: str, certificates: Certificates
) -> Iterator[tuple[BlockingClient, Answering]]:
    """Its session is open, and ends in order."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = certificates.client
    shown = ["psk", name, KEY.hex()]
    if not has_key(suite):
        shown = ["cert", str(certificates.authority), str(own), str(certificates.key(own))]
    command = [*client.command, str(port), client.suites[suite], *shown]
    process = subprocess.Popen(command, stdin=theirs.fileno())
    theirs.close()
    try:
        ours.settimeout(OPEN_S_MAX)
        assert ours.recv(16) == b"open"
        found = BlockingClient(port, name, retry_s=RETRY_S, timeout_s=60)
        found.socket.close()
        ours.settimeout(RETRY_S)
        found.socket = answering = Answering(ours)  # type: ignore[assignment]
        with found:
            yield found, answering
        assert process.wait(20) == 0
    finally:
        ours.close()
        process.kill()
        process.wait()


def all_features(sensor: BlockingClient, answering: Answering) -> None:
    """CONNECT, every QoS each way, sleep and waking up."""
    name = sensor.client_id
    sensor.does(sensor.connecting())
    assert sensor.does(sensor.subscribing(f"{name}/#".encode(), qos=2)) == 0
    topic = sensor.does(sensor.registering(f"{name}/up"))
    for qos in (0, 1, 2):
        sensor.does(sensor.publishing(topic, b"%d" % qos, qos=qos))
    wait_for(sensor, answering, {b"1", b"2"})
    sensor.does(sensor.leaving(60))
    sensor.ask(PINGREQ, name.encode(), PINGRESP)
    sensor.does(sensor.connecting(clean=False))
    sensor.does(sensor.publishing(topic, b"back", qos=1))
    wait_for(sensor, answering, {b"back"})
    sensor.does(sensor.leaving())


def wait_for(sensor: BlockingClient, answering: Answering, payloads: set[bytes]) -> None:
    """PINGREQ without a client id asks while nothing comes."""
    for _ in range(100):
        if payloads <= set(answering.received):
            return
        sensor.ask(PINGREQ, b"", PINGRESP)
    raise AssertionError(f"{payloads - set(answering.received)} have not come")


@pytest.mark.parametrize(("client", "suite"), CASES)
def test_all_features(site: Site, client: Client, suite: str) -> None:
    name = f"{client.name}-{suite}".lower()

    def story(port: int) -> None:
        with sensor(client, port, suite, name, site.certificates) as (found, answering):
            all_features(found, answering)

    async def run() -> None:
        proxy = LossyProxy(site.ports[has_key(suite)], 46, NETWORK)
        await proxy.open()
        try:
            await asyncio.to_thread(story, proxy.port)
        finally:
            proxy.close()

    asyncio.run(run())
    identity = f"psk:{name}" if has_key(suite) else "cert:client"
    said = [line for line in site.gateway.log.splitlines() if f"{identity} at 127.0.0.1" in line]
    assert said[-1].endswith(f", {suite}")


@where_built(MBED_TLS)
def test_the_command_of_mbed_tls(site: Site) -> None:
    """`ssl_client2` as docs/security.md has it; what it says inside is no MQTT-SN."""
    program = MBED_TLS.home / "programs" / "ssl" / "ssl_client2"
    said = subprocess.run(
        [
            program, "dtls=1", "server_addr=127.0.0.1", f"server_port={site.ports[True]}",
            "psk_identity=command", f"psk={KEY.hex()}", "read_timeout=500", "max_resend=0",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert "Protocol is DTLSv1.2" in said.stdout, said.stdout
    site.gateway.wait_for_log("psk:command at 127.0.0.1")
