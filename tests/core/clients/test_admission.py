"""Who comes in, and what the others hear."""

from __future__ import annotations

import pytest

from gateway.core.clients.admission import Admission, AdmissionOptions, Refusal
from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.frames import Connect, ReturnCode

NOBODY: frozenset[ClientId] = frozenset()


def asking(client_id: bytes, *, clean: bool = False, protocol_id: int = 1) -> Connect:
    return Connect(client_id, 60, clean_session=clean, protocol_id=protocol_id)


@pytest.mark.parametrize(
    ("client_id", "admitted"),
    [
        (b"s", True),
        (b"x" * 23, True),
        (b"x" * 64, True),
        (b"x" * 65, False),
        ("ö".encode() * 32, True),
        ("ö".encode() * 33, False),
        (b"", False),
        (b"\xff\xfe", False),
        (b"a\x00b", False),
        (b"line\nbreak", False),
    ],
)
def test_a_client_id_is_text_of_a_length_that_fits(client_id: bytes, admitted: bool) -> None:
    found = Admission(AdmissionOptions()).client_id_of(asking(client_id), NOBODY)
    if admitted:
        assert found == client_id.decode()
    else:
        assert isinstance(found, Refusal)
        assert (found.return_code, found.reason) == (ReturnCode.NOT_SUPPORTED, Reason.CLIENT_ID)
        assert f"of {len(client_id)} bytes" in found.detail


def test_a_client_without_an_id_gets_one_that_is_free() -> None:
    admission = Admission(AdmissionOptions(assign_empty_client_id=True))
    taken = {ClientId("auto-1"), ClientId("auto-3")}
    assert admission.client_id_of(asking(b"", clean=True), taken) == "auto-2"
    assert admission.client_id_of(asking(b"", clean=True), taken) == "auto-4"


def test_a_session_that_is_kept_needs_an_id_to_come_back_with() -> None:
    admission = Admission(AdmissionOptions(assign_empty_client_id=True))
    assert isinstance(admission.client_id_of(asking(b""), NOBODY), Refusal)


@pytest.mark.parametrize("protocol_id", [0, 2, 255])
def test_another_protocol_is_not_supported(protocol_id: int) -> None:
    admission = Admission(AdmissionOptions())
    refusal = admission.judge(asking(b"s", protocol_id=protocol_id), 0, known=True)
    assert refusal is not None
    assert (refusal.return_code, refusal.reason) == (ReturnCode.NOT_SUPPORTED, Reason.PROTOCOL_ID)


def test_when_all_places_are_taken_a_new_client_hears_congestion_and_a_known_one_comes_in() -> None:
    admission = Admission(AdmissionOptions(clients_max=2))
    assert admission.judge(asking(b"s"), 1, known=False) is None
    assert admission.judge(asking(b"s"), 2, known=True) is None
    refusal = admission.judge(asking(b"s"), 2, known=False)
    assert refusal is not None
    assert (refusal.return_code, refusal.reason) == (ReturnCode.CONGESTION, Reason.CLIENTS_FULL)


def test_strangers_share_a_budget_of_answers_that_fills_again() -> None:
    admission = Admission(AdmissionOptions(answers_per_s_max=2))
    heard = [admission.may_answer_unknown(now) for now in (9.0, 9.0, 9.0, 9.4, 9.5, 9.5, 99.0)]
    assert heard == [True, True, False, False, True, False, True]
    assert [admission.may_answer_unknown(99.0) for _ in range(3)] == [True, False, False]
