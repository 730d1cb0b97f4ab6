"""What the operator reads when the socket cannot be had as configured."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
from pathlib import Path

import pytest

from gateway.transports.errors import LinkError
from gateway.transports.port_owner import port_owner
from gateway.transports.udp.socket import explain_bind, open_udp_socket
from tests.support.own_network import run_in_own_network


def refusal(host: str, port: int) -> str:
    with pytest.raises(LinkError) as refused:
        open_udp_socket((host, port), 4096)
    return str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_in_use_names_its_owner(host: str) -> None:
    with open_udp_socket((host, 0), 4096) as first:
        port = first.getsockname()[1]
        said = refusal(host, port)
    assert f":{port}: " in said
    assert f"(process {os.getpid()}) has this port; stop it or choose another" in said


def test_the_owner_is_found_beside_a_program_that_opens_and_closes_sockets() -> None:
    """The kernel leaves lines out of a table that changes while it is read: 7 of 200 readings."""
    ended = threading.Event()

    def open_and_close() -> None:
        while not ended.is_set():
            sockets = [open_udp_socket(("127.0.0.1", 0), 4096) for _ in range(50)]
            for each in sockets:
                each.close()

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(open_udp_socket(("127.0.0.1", 0), 4096)) for _ in range(150)]
        port = held[0].getsockname()[1]
        other = threading.Thread(target=open_and_close)
        other.start()
        try:
            owners = [port_owner(port) for _ in range(15)]
        finally:
            ended.set()
            other.join()
    assert {owner and owner.pid for owner in owners} == {os.getpid()}


def test_an_owner_that_may_not_be_known_is_another_process(tmp_path: Path) -> None:
    with open_udp_socket(("127.0.0.1", 0), 4096) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "net").mkdir()
        (tmp_path / "net/udp").write_text(Path("/proc/net/udp").read_text())
        (tmp_path / "1").mkdir()
        assert port_owner(port, proc=tmp_path) is None
    assert port_owner(port) is None
    assert "another process has this port" in explain_bind(
        OSError(errno.EADDRINUSE, "in use"), "127.0.0.1", port
    )


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("192.0.2.7", "use one that `ip address` shows, or 0.0.0.0"),
        ("2001:db8::7", "or :: for all"),
    ],
)
def test_an_address_of_another_machine_is_refused(host: str, said: str) -> None:
    text = refusal(host, 1883)
    assert "this machine does not have that address" in text
    assert said in text


def test_a_host_name_is_refused_with_an_example() -> None:
    assert "'localhost' is not an IP address: write it in numbers" in refusal("localhost", 1883)


def test_a_low_port_without_privilege_names_the_capability() -> None:
    said = explain_bind(PermissionError(errno.EACCES, "Permission denied"), "::", 80)
    assert said.startswith("cannot listen on UDP [::]:80: ports below 1024 need a privilege")
    assert "CAP_NET_BIND_SERVICE" in said


def test_any_other_error_says_what_the_system_says() -> None:
    said = explain_bind(OSError(errno.ENOPROTOOPT, "Not available"), "0.0.0.0", 80)
    assert said == "cannot listen on UDP 0.0.0.0:80: Not available"
    limited = explain_bind(OSError(errno.EMFILE, "Too many open files"), "0.0.0.0", 80)
    assert "RLIMIT_NOFILE" in limited


def test_the_receive_buffer_is_as_large_as_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), open_udp_socket(("127.0.0.1", 0), 100_000) as opened:
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 200_000
    assert caplog.messages == []


def test_a_smaller_buffer_than_asked_for_is_said_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # More than the kernel gives anyone, privileged or not.
    with caplog.at_level(logging.INFO), open_udp_socket(("127.0.0.1", 0), 2**31 - 1):
        pass
    (said,) = caplog.messages
    assert said.endswith(f"to allow it: sysctl -w net.core.rmem_max={2**31 - 1}")


def test_a_listener_whose_address_is_removed_reports_it_until_it_is_back() -> None:
    run_in_own_network("tests.transports.network_stories", "an_address_goes_and_comes_back")
