"""What is allowed but probably not meant: said once, and no reason to stop."""

from pathlib import Path

from tests.config.reading import read

NO_EFFECT = (
    "has no effect in this release, which has no durable journal: readings wait in memory, "
    "up to upstream.waiting_messages_max"
)


def test_the_limits_of_a_journal_that_is_not_there_are_warned_about() -> None:
    text = '[journal]\nsize_max = "1GiB"\nwhen_full = "drop_oldest"\nacknowledge = "upstream"\n'
    assert read(text).warnings == (
        f"c.toml:2:12: journal.size_max: {NO_EFFECT}",
        f"c.toml:3:13: journal.when_full: {NO_EFFECT}",
    )


def test_a_warning_names_a_variable_as_its_source() -> None:
    assert read("", {"TIDEGATE_JOURNAL__SIZE_MAX": "1GiB"}).warnings == (
        f"environment TIDEGATE_JOURNAL__SIZE_MAX: journal.size_max: {NO_EFFECT}",
    )


def test_a_file_that_is_not_there_is_only_doubted_because_it_may_come() -> None:
    text = '[upstream]\nusername = "me"\npassword_file = "secret"\n'
    assert read(text).warnings == (
        "c.toml:3:17: upstream.password_file: secret cannot be read now: No such file or directory",
    )


def test_a_password_that_everybody_can_read_is_warned_about(folder: Path) -> None:
    text = '[upstream]\nusername = "me"\npassword_file = "secret"\n'
    secret = folder / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    assert read(text).warnings == (
        "c.toml:3:17: upstream.password_file: secret can be read by everybody on this machine; "
        "chmod o-r helps",
    )
    secret.chmod(0o640)
    assert read(text).warnings == ()


def test_certificates_may_be_readable_to_everybody(folder: Path) -> None:
    (folder / "ca.pem").touch(0o644)
    assert read('[upstream]\nurl = "mqtts://b"\nca_file = "ca.pem"\n').warnings == ()


def test_a_prefix_without_a_slash_is_warned_about() -> None:
    assert read('upstream.topic_prefix = "site"').warnings == (
        "c.toml:1:25: upstream.topic_prefix: has no slash at its end: topics become "
        '"sitesensors/boot"',
    )
    assert read('upstream.topic_prefix = "site/"').warnings == ()
