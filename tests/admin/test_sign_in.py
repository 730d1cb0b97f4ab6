"""Who may act: the password, its sessions, and those who try."""

from __future__ import annotations

import pytest

from gateway.admin.http.sign_in import (
    ATTEMPTS_MAX,
    ATTEMPTS_OF_ALL_MAX,
    SESSION_S,
    SESSION_S_MAX,
    SESSIONS_MAX,
    WINDOW_S,
    SignIn,
    SignInError,
    is_token_of,
)
from tests.admin.example import Clock


def sign_in(password: bytes | None = b"tide") -> tuple[SignIn, Clock]:
    clock = Clock()
    return SignIn(password, clock), clock


def fail(who: SignIn, host: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(SignInError, match="not the password"):
            who.begin("wrong", host)


def test_the_password_begins_a_session_and_is_not_kept() -> None:
    who, _ = sign_in()
    session = who.begin("tide", "10.0.0.7")
    assert who.session_of(session.cookie) is session
    assert is_token_of(session, session.token)
    assert not is_token_of(session, "")
    assert "tide" not in repr(who)
    who.end(session)
    assert who.session_of(session.cookie) is None


def test_another_password_ends_the_sessions_of_the_one_before() -> None:
    who, _ = sign_in()
    session = who.begin("tide", "10.0.0.7")
    who.change(b"ebb")
    assert who.session_of(session.cookie) is None
    with pytest.raises(SignInError, match="not the password"):
        who.begin("tide", "10.0.0.7")
    assert who.session_of(who.begin("ebb", "10.0.0.7").cookie) is not None
    who.change(None)
    assert not who.is_possible


def test_without_a_password_nobody_signs_in() -> None:
    who, _ = sign_in(None)
    assert not who.is_possible
    with pytest.raises(SignInError, match=r"admin\.password_file"):
        who.begin("", "10.0.0.7")


@pytest.mark.parametrize("cookie", [None, "", "made up"])
def test_no_other_cookie_is_one(cookie: str | None) -> None:
    who, _ = sign_in()
    who.begin("tide", "10.0.0.7")
    assert who.session_of(cookie) is None


def test_who_tries_too_often_must_wait_even_with_the_password() -> None:
    who, clock = sign_in()
    session = who.begin("tide", "10.0.0.7")
    fail(who, "10.0.0.7", ATTEMPTS_MAX)
    with pytest.raises(SignInError, match="wait 60 s") as caught:
        who.begin("tide", "10.0.0.7")
    assert caught.value.wait_s == WINDOW_S
    assert who.session_of(session.cookie) is session, "a session goes on"
    who.begin("tide", "10.0.0.8")
    clock.now += WINDOW_S
    who.begin("tide", "10.0.0.7")


def test_all_of_them_together_must_wait_as_well() -> None:
    who, clock = sign_in()
    for number in range(ATTEMPTS_OF_ALL_MAX):
        fail(who, f"10.0.1.{number}", 1)
    with pytest.raises(SignInError, match="wait"):
        who.begin("tide", "10.0.0.7")
    clock.now += WINDOW_S
    who.begin("tide", "10.0.0.7")


def test_any_number_of_addresses_is_remembered_in_bounds() -> None:
    who, clock = sign_in()
    for number in range(2000):
        clock.now += WINDOW_S
        fail(who, f"10.0.{number // 256}.{number % 256}", 1)
    assert len(who._failures) <= 256


def test_a_session_ends_when_it_is_not_used_and_after_half_a_day_in_any_case() -> None:
    who, clock = sign_in()
    idle, busy = who.begin("tide", "10.0.0.7"), who.begin("tide", "10.0.0.7")
    end = clock.now + SESSION_S_MAX
    while clock.now + SESSION_S / 2 <= end:
        clock.now += SESSION_S / 2
        assert who.session_of(busy.cookie) is busy
    assert who.session_of(idle.cookie) is None
    clock.now += SESSION_S / 2
    assert who.session_of(busy.cookie) is None


def test_of_too_many_sessions_the_one_that_was_used_the_longest_ago_ends() -> None:
    who, clock = sign_in()
    sessions = []
    for _ in range(SESSIONS_MAX):
        clock.now += 1
        sessions.append(who.begin("tide", "10.0.0.7"))
    clock.now += 1
    assert who.session_of(sessions[0].cookie) is sessions[0]
    who.begin("tide", "10.0.0.7")
    assert who.session_of(sessions[0].cookie) is sessions[0]
    assert who.session_of(sessions[1].cookie) is None
