import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.transports.dtls.options import DtlsOptions
from gateway.transports.dtls.records import hello_of
from gateway.transports.socket_address import address_of
from tests.support.dtls_client import DtlsClient
from tests.transports.dtls.listening import ELSEWHERE, HERE, KEY, OTHER_KEY, Listening, keys

SUITES = (
    "ECDHE-PSK-CHACHA20-POLY1305",
    "PSK-AES128-GCM-SHA256",
    "PSK-AES128-CCM8",
    "PSK-AES128-CCM",
    "PSK-CHACHA20-POLY1305",
)


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **named: object) -> None:
        async def whole() -> None:
            await test(*args, **named)

        asyncio.run(whole())

    return run


@pytest.mark.parametrize("suite", SUITES)
@in_a_loop
async def test_messages_go_both_ways(suite: str) -> None:
    listening = Listening()
    client = listening.connected(suites=suite)
    assert listening.link.suite_of(HERE) == suite
    listening.receive(HERE, client.sealed(b"\x02\x16"))
    assert listening.heard == [(HERE, b"\x02\x16")]
    listening.link.send_all([(HERE, b"\x02\x17"), (ELSEWHERE, b"lost")])
    (record,) = listening.air.taken(HERE)
    assert client.opened(record) == b"\x02\x17"
    assert listening.link.counters.unsent == 1
    assert listening.identities == ["psk:tank"]


@in_a_loop
async def test_an_address_that_has_shown_no_cookie_leaves_nothing() -> None:
    listening = Listening()
    (hello,) = DtlsClient("tank", KEY).begin()
    for port in range(1, 3000):
        listening.receive(address_of("198.51.100.9", port), hello)
    assert not listening.link.handshake_count
    assert not listening.link.session_count
    answers = [datagram for _, datagram in listening.air.sent]
    assert len(answers) == 2000  # HELLOS_PER_S_MAX
    assert max(map(len, answers)) < len(hello)


@in_a_loop
async def test_a_cookie_is_good_at_its_address_and_for_two_minutes() -> None:
    listening = Listening()
    client = DtlsClient("tank", KEY)
    listening.receive(HERE, *client.begin())
    (hello,) = client.receive(listening.air.taken(HERE)[0])
    parsed = hello_of(hello)
    assert parsed is not None
    assert len(parsed.cookie) == 16
    listening.receive(ELSEWHERE, hello)
    assert not listening.link.handshake_count
    listening.now += 121
    listening.receive(HERE, hello)
    assert not listening.link.handshake_count
    listening.now -= 100
    listening.receive(HERE, hello)
    assert HERE in listening.link._handshakes
    listening.link.close()


@in_a_loop
async def test_a_hello_in_the_name_of_an_address_ends_nothing() -> None:
    """RFC 6347, 4.2.8."""
    listening = Listening()
    client = listening.connected()
    rival = DtlsClient("well", OTHER_KEY)
    listening.receive(HERE, *rival.begin())
    listening.receive(HERE, *rival.receive(listening.air.taken(HERE)[0]))
    assert listening.link.handshake_count == 1  # its sender receives here as well
    listening.receive(HERE, client.sealed(b"still"))
    assert listening.heard == [(HERE, b"still")]
    assert listening.link.identity_of(HERE) == "psk:tank"
    listening.link.close()


@in_a_loop
async def test_another_identity_at_an_address_takes_it_when_its_handshake_is_complete() -> None:
    listening = Listening()
    former = listening.connected()
    latest = listening.connected("well", OTHER_KEY)
    assert listening.identities == ["psk:tank", "psk:well"]
    assert listening.link.session_count == 1
    listening.receive(HERE, former.sealed(b"of the former"), latest.sealed(b"of the latest"))
    assert listening.heard == [(HERE, b"of the latest")]


@in_a_loop
async def test_an_identity_that_comes_from_elsewhere_has_its_former_session_ended() -> None:
    listening = Listening()
    former = listening.connected()
    listening.connected(address=ELSEWHERE)
    (closing,) = listening.air.taken(HERE)
    assert former.opened(closing) is None
    assert former.is_ended
    assert listening.link.session_count == 1
    assert listening.link.counters.sessions_ended == {"taken_over": 1}


@in_a_loop
async def test_a_client_that_begins_again_at_its_address_goes_on() -> None:
    listening = Listening()
    listening.connected()
    again = listening.connected()
    listening.receive(HERE, again.sealed(b"again"))
    assert listening.heard == [(HERE, b"again")]
    assert listening.identities == ["psk:tank"]  # it is no other one


@in_a_loop
async def test_a_session_is_there_as_long_as_the_core_needs_it() -> None:
    listening = Listening(options=DtlsOptions(idle_s=10))
    listening.connected()
    listening.used = {HERE}
    listening.now += 3600
    listening.link.look()
    assert listening.link.session_count == 1
    listening.used = ()
    listening.now += 6
    listening.link.look()
    assert listening.link.session_count == 0
    assert listening.link.counters.sessions_ended == {"idle": 1}
    assert listening.link.identity_of(HERE) == "psk:tank"  # for what waits there


@in_a_loop
async def test_who_is_not_needed_gives_way_when_there_is_no_room() -> None:
    listening = Listening(options=DtlsOptions(sessions_max=1))
    listening.connected()
    listening.used = {HERE}
    client = DtlsClient("well", OTHER_KEY)
    assert not listening.shake_hands(client, ELSEWHERE)
    assert listening.link.counters.refused["sessions_full"] == 1
    listening.used = ()
    listening.connected("well", OTHER_KEY, ELSEWHERE)
    assert listening.link.session_count == 1
    assert listening.link.identity_of(ELSEWHERE) == "psk:well"


@in_a_loop
async def test_the_host_with_the_most_handshakes_loses_its_oldest() -> None:
    listening = Listening(options=DtlsOptions(handshakes_max=3))
    places = [ELSEWHERE, *(address_of("192.0.2.7", 1000 + number) for number in range(5))]
    for address in places:
        client = DtlsClient("tank", KEY)
        listening.receive(address, *client.begin())
        listening.receive(address, *client.receive(listening.air.taken(address)[0]))
    assert listening.link.handshake_count == 3
    assert listening.link.counters.refused["gave_way"] == 3
    listening.receive(ELSEWHERE, *client.begin())
    assert ELSEWHERE in listening.link._handshakes
    listening.link.close()
    assert not listening.link.handshake_count


@in_a_loop
async def test_of_two_keys_the_other_is_tried_when_one_has_failed() -> None:
    listening = Listening(keys(tank=(OTHER_KEY, KEY)))
    first = DtlsClient("tank", KEY)  # the older one
    assert not listening.shake_hands(first)
    second = DtlsClient("tank", KEY)
    assert listening.shake_hands(second)
    newest = DtlsClient("tank", OTHER_KEY)
    assert not listening.shake_hands(newest)
    assert listening.shake_hands(DtlsClient("tank", OTHER_KEY))


@in_a_loop
async def test_a_name_without_a_key_is_refused_at_once() -> None:
    listening = Listening()
    client = DtlsClient("unknown", KEY)
    assert not listening.shake_hands(client)
    assert client.problem is not None
    assert "unknown psk identity" in client.problem
    assert not listening.link.handshake_count


@in_a_loop
async def test_a_wrong_key_opens_nothing() -> None:
    listening = Listening()
    assert not listening.shake_hands(DtlsClient("tank", OTHER_KEY))
    assert not listening.link.session_count
    listening.link.close()


@in_a_loop
async def test_a_key_that_is_revoked_ends_its_session() -> None:
    listening = Listening()
    listening.connected()
    listening.connected("well", OTHER_KEY, ELSEWHERE)
    listening.link.look()
    listening.known = keys(well=(OTHER_KEY,))
    listening.now += 10
    listening.link.look()
    assert not listening.air.waits, "its device is told at once"
    assert listening.link.session_count == 1
    assert listening.link.counters.sessions_ended == {"not_allowed": 1}


@in_a_loop
async def test_close_notify_ends_a_session_on_either_side() -> None:
    listening = Listening()
    client = listening.connected()
    listening.receive(HERE, *client.close())
    assert listening.link.counters.sessions_ended == {"closed_by_peer": 1}
    other = listening.connected("well", OTHER_KEY, ELSEWHERE)
    listening.link.close()
    (closing,) = listening.air.taken(ELSEWHERE)
    assert other.opened(closing) is None
    assert other.is_ended
    assert listening.air.is_closed


@in_a_loop
async def test_copies_forged_and_cut_records_are_dropped() -> None:
    listening = Listening()
    client = listening.connected()
    record = client.sealed(b"once")
    forged = record[:-1] + bytes((record[-1] ^ 1,))
    cuts = [record[:size] for size in range(len(record))]
    listening.receive(HERE, forged, *cuts, record, record, *cuts, forged, b"\x02\x16", b"")
    listening.receive(ELSEWHERE, record)
    assert listening.heard == [(HERE, b"once")]
    listening.receive(HERE, client.sealed(b"twice"))
    assert listening.heard == [(HERE, b"once"), (HERE, b"twice")]
    assert listening.link.session_count == 1


@in_a_loop
async def test_the_end_of_a_handshake_is_said_again_when_it_was_lost() -> None:
    listening = Listening()
    client = DtlsClient("tank", KEY)
    listening.receive(HERE, *client.begin())
    listening.receive(HERE, *client.receive(listening.air.taken(HERE)[0]))
    flight = [each for one in listening.air.taken(HERE) for each in client.receive(one)]
    listening.receive(HERE, *flight)
    assert listening.link.session_count == 1
    assert listening.air.taken(HERE)  # lost
    await asyncio.sleep(1.1)
    client.connection.DTLSv1_handle_timeout()
    # Some clients put all of a flight into one datagram.
    listening.receive(HERE, b"".join(client.outgoing()))
    for each in listening.air.taken(HERE):
        client.receive(each)
    assert client.is_open


@in_a_loop
async def test_what_is_not_answered_is_sent_again_in_a_second() -> None:
    listening = Listening()
    client = DtlsClient("tank", KEY)
    listening.receive(HERE, *client.begin())
    listening.receive(HERE, *client.receive(listening.air.taken(HERE)[0]))
    assert listening.air.taken(HERE)  # lost
    await asyncio.sleep(0.2)
    assert not listening.air.sent
    listening.now += 1.2
    await asyncio.sleep(1.2)
    assert listening.air.sent
    listening.link.close()


@in_a_loop
async def test_a_handshake_that_never_ends_is_given_up() -> None:
    listening = Listening()
    client = DtlsClient("tank", KEY)
    listening.receive(HERE, *client.begin())
    listening.receive(HERE, *client.receive(listening.air.taken(HERE)[0]))
    listening.now += 61
    await asyncio.sleep(1.2)
    assert not listening.link.handshake_count
    assert listening.link.counters.refused["unanswered"] == 1
