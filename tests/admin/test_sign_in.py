"""Who may act: users and passwords, their sessions, and those who try."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.admin.http.passwords import hash_password, hash_token, is_hash, is_password, new_token
from gateway.admin.http.sign_in import (
    ATTEMPTS_MAX,
    ATTEMPTS_OF_ALL_MAX,
    ATTEMPTS_OF_USER_MAX,
    HOSTS_MAX,
    OPERATOR,
    SESSION_S,
    SESSION_S_MAX,
    SESSIONS_MAX,
    WAITING_MAX,
    WINDOW_S,
    Accounts,
    Role,
    Session,
    SignIn,
    SignInError,
    Token,
    User,
    accounts_of_password,
    is_token_of,
)
from tests.admin.example import Clock

HERE, THERE = "10.0.0.7", "10.0.0.8"


def hashed(password: str) -> str:
    """As cheap as can be."""
    return hash_password(password, log_n=10, p=1)


def sign_in(password: bytes | None = b"tide") -> tuple[SignIn, Clock]:
    clock = Clock()
    return SignIn(accounts_of_password(password), clock), clock


def begin(who: SignIn, password: str, host: str, user: str = OPERATOR) -> Session:
    return asyncio.run(who.begin(user, password, host))


def fail(who: SignIn, host: str, times: int, user: str = OPERATOR) -> None:
    for _ in range(times):
        with pytest.raises(SignInError, match="not the password"):
            begin(who, "wrong", host, user)


def test_a_password_is_stored_as_a_salted_hash() -> None:
    one, other = hashed("tide"), hashed("tide")
    assert one != other
    assert is_hash(one)
    assert not is_hash("tide")
    assert is_password("tide", one)
    assert not is_password("ebb", one)
    assert not is_password("tide", None)


def test_tokens_are_long_random_and_recognised() -> None:
    one = new_token()
    assert one != new_token()
    assert len(one) > 40
    accounts = Accounts(tokens={hash_token(one): Token("ci", Role.VIEWER)})
    who = SignIn(accounts, Clock())
    assert who.token_of(one) == Token("ci", Role.VIEWER)
    assert who.token_of(one + "x") is None
    assert one not in repr(accounts)


def test_the_password_begins_a_session_and_is_not_kept() -> None:
    who, _ = sign_in()
    session = begin(who, "tide", HERE)
    assert who.session_of(session.cookie) is session
    assert (session.user, session.role) == (OPERATOR, Role.OPERATOR)
    assert is_token_of(session, session.token)
    assert not is_token_of(session, "")
    assert "tide" not in repr(who.accounts).replace(OPERATOR, "")
    who.end(session.cookie)
    assert who.session_of(session.cookie) is None


def test_users_have_the_role_that_is_theirs_and_a_wrong_name_is_a_wrong_password() -> None:
    users = {
        "anna": User(Role.OPERATOR, hashed("one")),
        "ben": User(Role.VIEWER, hashed("two")),
    }
    who = SignIn(Accounts(users), Clock())
    assert begin(who, "one", HERE, "anna").role is Role.OPERATOR
    assert begin(who, "two", HERE, "ben").role is Role.VIEWER
    for user, password in (("anna", "two"), ("carl", "one"), (OPERATOR, "one"), ("", "")):
        with pytest.raises(SignInError, match="not the password"):
            begin(who, password, f"10.0.1.{len(user)}", user)


def test_another_password_or_role_ends_the_sessions_of_that_user_alone() -> None:
    one, two = User(Role.OPERATOR, b"1" * 32), User(Role.VIEWER, hashed("two"))
    tide = accounts_of_password(b"tide").users[OPERATOR]
    who = SignIn(Accounts({OPERATOR: tide, "ben": two, "anna": one}), Clock())
    ours, bens = begin(who, "tide", HERE), begin(who, "two", HERE, "ben")
    who.use(Accounts({OPERATOR: tide, "ben": User(Role.OPERATOR, two.secret)}))
    assert who.session_of(ours.cookie) is ours
    assert who.session_of(bens.cookie) is None
    who.use(accounts_of_password(b"ebb"))
    assert who.session_of(ours.cookie) is None
    with pytest.raises(SignInError, match="not the password"):
        begin(who, "tide", HERE)
    assert who.session_of(begin(who, "ebb", HERE).cookie) is not None
    who.use(accounts_of_password(None))
    assert not who.is_possible


def test_signing_in_makes_another_cookie_and_ends_the_session_before() -> None:
    who, _ = sign_in()
    former = begin(who, "tide", HERE)
    cookie = former.cookie
    session = asyncio.run(who.begin(OPERATOR, "tide", HERE, cookie))
    assert session.cookie != cookie
    assert who.session_of(cookie) is None
    asyncio.run(who.begin(OPERATOR, "tide", HERE, "made up by somebody else"))
    assert who.session_of("made up by somebody else") is None


def test_without_a_password_nobody_signs_in() -> None:
    who, _ = sign_in(None)
    assert not who.is_possible
    with pytest.raises(SignInError, match=r"admin\.password_file"):
        begin(who, "", HERE)


@pytest.mark.parametrize("cookie", [None, "", "made up", "\ud800"])
def test_no_other_cookie_is_one(cookie: str | None) -> None:
    who, _ = sign_in()
    begin(who, "tide", HERE)
    assert who.session_of(cookie) is None


def test_who_tries_too_often_must_wait_even_with_the_password() -> None:
    who, clock = sign_in()
    session = begin(who, "tide", HERE)
    fail(who, HERE, ATTEMPTS_MAX)
    with pytest.raises(SignInError, match="wait 60 s") as caught:
        begin(who, "tide", HERE)
    assert caught.value.wait_s == WINDOW_S
    assert who.session_of(session.cookie) is session, "a session goes on"
    begin(who, "tide", THERE)
    clock.now += WINDOW_S
    begin(who, "tide", HERE)


def test_many_at_once_do_not_pass_the_limit() -> None:
    users = {"anna": User(Role.OPERATOR, hashed("one"))}
    who = SignIn(Accounts(users), Clock())

    async def story() -> list[BaseException | Session]:
        tries = (who.begin("anna", f"guess {n}", HERE) for n in range(40))
        return await asyncio.gather(*tries, return_exceptions=True)

    answers = [str(one) for one in asyncio.run(story())]
    assert sum("not the password" in one for one in answers) <= ATTEMPTS_MAX
    assert sum("wait 60 s" in one for one in answers) >= 40 - ATTEMPTS_MAX - WAITING_MAX


def test_a_password_that_was_not_verified_as_too_many_waited_is_no_wrong_one() -> None:
    users = {name: User(Role.OPERATOR, hashed("one")) for name in ("anna", "bert")}
    who = SignIn(Accounts(users), Clock())

    async def story() -> None:
        others = [
            asyncio.create_task(who.begin("bert", "guess", f"10.0.1.{n}"))
            for n in range(WAITING_MAX)
        ]
        await asyncio.sleep(0)
        for _ in range(2 * ATTEMPTS_OF_USER_MAX):
            with pytest.raises(SignInError, match="too many sign in at once"):
                await who.begin("anna", "one", HERE)
        answers = await asyncio.gather(*others, return_exceptions=True)
        assert {str(each) for each in answers} == {"that is not the password"}
        assert (await who.begin("anna", "one", HERE)).user == "anna"

    asyncio.run(story())


def test_a_password_that_a_busy_machine_did_not_verify_is_no_wrong_one() -> None:
    who = SignIn(Accounts({"anna": User(Role.OPERATOR, hashed("one"))}), Clock())
    goes_on = threading.Event()

    async def story() -> None:
        hangs = asyncio.create_task(who._thread.run(goes_on.wait, 60.0))
        await asyncio.sleep(0)
        for _ in range(2 * ATTEMPTS_OF_ALL_MAX):
            with pytest.raises(SignInError, match="too busy to verify") as caught:
                await who.begin("anna", "one", HERE)
            assert caught.value.wait_s < WINDOW_S
        goes_on.set()
        await hangs
        for _ in range(ATTEMPTS_MAX):
            with pytest.raises(SignInError, match="not the password"):
                await who.begin("anna", "two", HERE)
        with pytest.raises(SignInError, match="too many wrong passwords"):
            await who.begin("anna", "one", HERE)

    asyncio.run(story())


def test_one_user_is_guarded_from_all_addresses_and_not_locked_out_of_his_own() -> None:
    who, clock = sign_in()
    begin(who, "tide", HERE)
    for number in range(ATTEMPTS_OF_USER_MAX):
        fail(who, f"10.0.1.{number}", 1)
    with pytest.raises(SignInError, match="wait"):
        begin(who, "tide", THERE)
    begin(who, "tide", HERE)
    clock.now += WINDOW_S
    begin(who, "tide", THERE)


def test_all_of_them_together_must_wait_as_well() -> None:
    who, clock = sign_in()
    for number in range(ATTEMPTS_OF_ALL_MAX):
        fail(who, f"10.0.1.{number}", 1, f"user {number}")
    with pytest.raises(SignInError, match="wait"):
        begin(who, "tide", HERE)
    clock.now += WINDOW_S
    begin(who, "tide", HERE)


def test_any_number_of_addresses_and_users_is_remembered_in_bounds() -> None:
    who, clock = sign_in()
    for number in range(2000):
        clock.now += WINDOW_S
        fail(who, f"10.0.{number // 256}.{number % 256}", 1, f"{number}" * 100)
    assert len(who._of_host) <= HOSTS_MAX
    assert len(who._of_user) <= HOSTS_MAX


def test_a_session_ends_when_it_is_not_used_and_after_half_a_day_in_any_case() -> None:
    who, clock = sign_in()
    idle, busy = begin(who, "tide", HERE), begin(who, "tide", HERE)
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
        sessions.append(begin(who, "tide", HERE))
    clock.now += 1
    assert who.session_of(sessions[0].cookie) is sessions[0]
    begin(who, "tide", HERE)
    assert who.session_of(sessions[0].cookie) is sessions[0]
    assert who.session_of(sessions[1].cookie) is None
