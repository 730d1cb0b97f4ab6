import random

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.transports.dtls.records import (
    Cookies,
    Hello,
    datagrams_of,
    epoch_of,
    hello_of,
    hello_verify_request,
    is_hello,
    is_one_record,
    psk_identity_of,
)
from tests.support.dtls_client import DtlsClient

RECORD = "16 fefd 0000 000000000005"
HELLO = bytes.fromhex(
    f"{RECORD} 0036 01 00002a 0000 000000 00002a fefd" + "11" * 32 + "00 00 0002 00a8 01 00"
)
KEY_EXCHANGE = bytes.fromhex(f"{RECORD} 0012 10 000006 0002 000000 000006 0004") + b"tank"


def test_a_hello_as_it_is_on_the_wire() -> None:
    assert is_hello(HELLO)
    assert hello_of(HELLO) == Hello(b"\x11" * 32, b"", bytes.fromhex("000000000005"), 0)


def test_every_cut_of_a_hello_is_none() -> None:
    for size in range(len(HELLO)):
        assert hello_of(HELLO[:size]) is None


def test_a_fragment_is_none() -> None:
    assert hello_of(HELLO[:19] + b"\x00\x00\x01" + HELLO[22:]) is None
    assert hello_of(HELLO[:14] + b"\x00\x00\x2b" + HELLO[17:]) is None


def test_the_answer_has_the_number_of_the_record_and_of_the_message() -> None:
    hello = hello_of(HELLO)
    assert hello is not None
    assert hello_verify_request(hello, b"\xaa" * 16) == bytes.fromhex(
        "16 feff 0000 000000000005 001f 03 000013 0000 000000 000013 feff 10" + "aa" * 16
    )


def test_openssl_takes_the_answer() -> None:
    client, cookies = DtlsClient("tank", bytes(16)), Cookies(b"secret")
    (first,) = client.begin()
    hello = hello_of(first)
    assert hello is not None
    cookie = cookies.cookie(b"here", hello, 5.0)
    (second,) = client.receive(hello_verify_request(hello, cookie))
    again = hello_of(second)
    assert again is not None
    assert (again.cookie, again.message) == (cookie, 1)
    assert cookies.is_valid(b"here", again, 5.0)
    assert cookies.is_valid(b"here", again, 64.0)
    assert not cookies.is_valid(b"there", again, 5.0)
    assert not cookies.is_valid(b"here", again, 121.0)
    assert not Cookies(b"of another run").is_valid(b"here", again, 5.0)


def test_the_name_that_a_key_exchange_has() -> None:
    assert psk_identity_of(KEY_EXCHANGE) == b"tank"
    assert psk_identity_of(HELLO + KEY_EXCHANGE) == b"tank"
    assert psk_identity_of(KEY_EXCHANGE[:-5] + b"\x05tank") is None
    for size in range(len(KEY_EXCHANGE)):
        assert psk_identity_of(KEY_EXCHANGE[:size]) is None


def test_what_is_no_record_has_no_epoch() -> None:
    assert epoch_of(HELLO) == 0
    assert epoch_of(b"\x17\xfe\xfd\x00\x01" + bytes(9)) == 1
    for other in (b"", b"\x05\x04\x01\x00\x00", b"\x17\x03\x03\x00\x01" + bytes(9), HELLO[:13]):
        assert epoch_of(other) is None


def test_a_flight_is_cut_between_records() -> None:
    flight = HELLO + KEY_EXCHANGE + HELLO
    assert datagrams_of(flight, 2000) == [flight]
    assert datagrams_of(flight, len(HELLO) + len(KEY_EXCHANGE)) == [HELLO + KEY_EXCHANGE, HELLO]
    assert datagrams_of(flight, 1) == [HELLO, KEY_EXCHANGE, HELLO]
    assert datagrams_of(b"", 10) == []
    assert is_one_record(HELLO)
    assert not is_one_record(flight)


def test_any_bytes_raise_nothing() -> None:
    dice = random.Random(46)
    for _ in range(20_000):
        mutated = bytearray(dice.choice((HELLO, KEY_EXCHANGE, HELLO + KEY_EXCHANGE)))
        for _ in range(dice.randrange(1, 6)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        datagram = bytes(mutated[: dice.randrange(len(mutated) + 1)])
        epoch_of(datagram)
        is_hello(datagram)
        hello_of(datagram)
        psk_identity_of(datagram)
