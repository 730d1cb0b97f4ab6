"""`tidegate watch` as a process, at a real broker."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.cli.watch.writing import WAITING_BYTES_MAX, WAITING_MAX, Writer
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_port
from tests.cli.tidegate import environment_with, tidegate
from tests.support.publisher import Publisher
from tests.support.waiting import until

END_S_MAX = 20.0


def _at(broker: Mosquitto) -> list[str]:
    delays = [f"upstream.reconnect_delay_s_{end}=0.2" for end in ("min", "max")]
    sets = [f"upstream.url={broker.url}", "admin.listen=127.0.0.1:1", *delays]
    return [f"--set={each}" for each in sets]


class Watch:
    """Its errors go to a file, so that they can be looked at while it runs."""

    def __init__(self, folder: Path, broker: Mosquitto, *arguments: str, stdout: int = -1) -> None:
        self.errors = folder / "errors"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "watch", *arguments, *_at(broker)],
                stdout=stdout,
                stderr=errors,
                env=environment_with({"TERM": "xterm", "COLUMNS": ""}),
                cwd=folder,
            )

    def __enter__(self) -> Watch:
        until(lambda: "watching" in self.error_text() or self.process.poll() is not None)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def error_text(self) -> str:
        return self.errors.read_text()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def json(self) -> Any:
        return json.loads(self.line())

    def ended(self) -> int:
        code = self.process.wait(END_S_MAX)
        assert "Traceback" not in self.error_text(), self.error_text()
        return code


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as started:
        yield started


def test_readings_come_with_sensor_topic_qos_and_payload(tmp_path: Path, broker: Mosquitto) -> None:
    with Watch(tmp_path, broker, "--json", "--count", "2") as watch:
        with Publisher(broker.port) as publisher:
            for qos in (0, 1):
                publisher.publish([qos], qos=qos)
        found = [watch.json() for _ in range(2)]
        assert [each["qos"] for each in found] == [0, 1]
        assert {(each["client"], each["topic"]) for each in found} == {("s1", "farm/1/t")}
        assert [each["values"][0]["value"] for each in found] == [0, 1]
        assert watch.ended() == ExitCode.OK


def test_a_sensor_is_watched_by_its_name(tmp_path: Path, broker: Mosquitto) -> None:
    with (
        Watch(tmp_path, broker, "s1", "--count", "1") as watch,
        Publisher(broker.port) as publisher,
    ):
        publisher.publish([1], gateway=None)
        publisher.publish([2])
        assert watch.line().split()[1:3] == ["s1", "farm/1/t"]
        assert watch.ended() == ExitCode.OK


def test_fewer_than_were_asked_for_is_a_failure(tmp_path: Path, broker: Mosquitto) -> None:
    with Watch(tmp_path, broker, "--count", "1", "--for", "0.5") as watch:
        assert watch.ended() == ExitCode.FAILURE
    with Watch(tmp_path, broker, "--for", "0.5") as watch:
        assert watch.ended() == ExitCode.OK


def test_a_broker_that_goes_is_named_and_found_again(tmp_path: Path, broker: Mosquitto) -> None:
    with Watch(tmp_path, broker, "--json") as watch:
        broker.stop()
        until(lambda: " unreachable: " in watch.error_text())
        broker.start()
        until(lambda: " again after " in watch.error_text())
        with Publisher(broker.port) as publisher:
            publisher.publish([7])
        assert watch.json()["text"] == "7"
        watch.process.send_signal(signal.SIGINT)
        assert watch.ended() == ExitCode.INTERRUPTED


def test_ctrl_c_ends_it_also_while_the_broker_is_away(tmp_path: Path, broker: Mosquitto) -> None:
    broker.stop()
    watch = Watch(tmp_path, broker)
    until(lambda: " unreachable: " in watch.error_text())
    watch.process.send_signal(signal.SIGINT)
    assert watch.ended() == ExitCode.INTERRUPTED
    watch.__exit__()


def test_who_may_not_connect_is_told_and_the_verb_ends(tmp_path: Path) -> None:
    with Mosquitto(allow_anonymous=False) as broker, Watch(tmp_path, broker) as watch:
        assert watch.ended() == ExitCode.PERMISSION
        assert "not authorised; check upstream.username" in watch.error_text()


def test_a_password_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    sets = ("upstream.username=u", f"upstream.password_file={missing}")
    done = tidegate("watch", "--set", sets[0], "--set", sets[1], folder=tmp_path)
    assert done.returncode == ExitCode.PERMISSION
    assert f"{missing} cannot be read" in done.stderr
    sets = ("upstream.username=u", "upstream.password_file=credential:nobody.has.it")
    done = tidegate("watch", "--set", sets[0], "--set", sets[1], folder=tmp_path)
    assert done.returncode == ExitCode.PERMISSION
    assert "/etc/credstore/nobody.has.it cannot be read" in done.stderr


def test_a_pipe_that_is_closed_ends_it_though_nothing_comes(
    tmp_path: Path, broker: Mosquitto
) -> None:
    with Watch(tmp_path, broker) as watch:
        assert watch.process.stdout is not None
        watch.process.stdout.close()
        assert watch.ended() == ExitCode.FAILURE
        assert watch.error_text() == "watching all readings; Ctrl-C ends it\n"


def test_what_waits_at_the_end_is_written_however_late_it_is_read(
    tmp_path: Path, broker: Mosquitto
) -> None:
    reader, writing_end = os.pipe()
    count = 2000
    arguments = ("--json", "--count", str(count))
    with Watch(tmp_path, broker, *arguments, stdout=writing_end) as watch:
        os.close(writing_end)
        with Publisher(broker.port) as publisher:
            publisher.publish(range(count), payload=b"x" * 200)
        with os.fdopen(reader, "rb") as lines:
            assert sum(1 for _ in lines) == count
        assert watch.ended() == ExitCode.OK
        assert "skipped" not in watch.error_text()


def test_what_a_slow_output_does_not_take_is_counted() -> None:
    reader, writing_end = os.pipe()
    ends: list[OSError] = []
    writer = Writer(writing_end, ends.append)
    writer.start()
    published = WAITING_MAX + 3000
    written = sum(writer.put(b"x" * 499 + b"\n") for _ in range(published))
    assert written < published
    assert writer.take_skipped() == 0  # there is no room yet
    with os.fdopen(reader, "rb") as lines:
        assert sum(len(lines.readline()) == 500 for _ in range(written)) == written
        assert writer.take_skipped() == published - written
        assert writer.put(b"again\n")
        assert lines.readline() == b"again\n"
    writer.put(b"nobody reads it\n")
    until(lambda: len(ends) == 1)
    writer.close(END_S_MAX)
    os.close(writing_end)
    assert isinstance(ends[0], BrokenPipeError)


def test_long_lines_do_not_wait_in_any_number() -> None:
    reader, writing_end = os.pipe()
    writer = Writer(writing_end, lambda _: None)
    writer.start()
    taken = sum(writer.put(bytes(WAITING_BYTES_MAX // 4)) for _ in range(10))
    assert taken <= 5
    os.close(reader)
    writer.close(END_S_MAX)
    os.close(writing_end)


def test_a_stopped_terminal_does_not_keep_it_from_ending(tmp_path: Path, broker: Mosquitto) -> None:
    leader, terminal = pty.openpty()
    with Watch(tmp_path, broker, stdout=terminal) as watch:
        os.close(terminal)
        with Publisher(broker.port) as publisher:
            publisher.publish(range(3000), payload=b"x" * 400)
        watch.process.send_signal(signal.SIGINT)
        assert watch.ended() == ExitCode.INTERRUPTED
    os.close(leader)


@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_terminal_lines_are_as_wide_as_it_and_in_colours(
    tmp_path: Path, broker: Mosquitto, columns: int
) -> None:
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with Watch(tmp_path, broker, "--count", "1", stdout=terminal) as watch:
        os.close(terminal)
        with Publisher(broker.port) as publisher:
            publisher.publish([1], payload=b"\x1b]0;evil\x07" + b"word " * 30)
        assert watch.ended() == ExitCode.OK
        text = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "\x1b[1ms1\x1b[0m" in text
    for style in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
        text = text.replace(style, "")
    assert "\x1b" not in text
    assert max(map(len, text.split("\r\n"))) <= columns


def test_a_filter_that_is_none_is_refused(tmp_path: Path) -> None:
    done = tidegate("watch", "a/#/b", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "expected a topic filter" in done.stderr


def test_a_server_that_says_nothing_is_not_waited_for_in_silence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = tidegate(
            "watch",
            "--for",
            "4",
            "--set",
            "upstream.connect_timeout_s=1",
            "--set",
            f"upstream.url=mqtt://127.0.0.1:{port}",
            folder=tmp_path,
        )
    assert "is it an MQTT 5 broker?" in done.stderr


def test_a_port_where_nothing_listens_is_named(tmp_path: Path) -> None:
    url = f"upstream.url=mqtt://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    began = time.monotonic()
    done = tidegate("watch", "--for", "0.5", "--set", url, folder=tmp_path)
    assert done.returncode == ExitCode.OK
    assert "nothing listens on" in done.stderr
    assert time.monotonic() - began < END_S_MAX
