"""`tidegate buffer`: from the running gateway, or from the files that it left."""

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import cbor2
import pytest

from gateway.__main__ import main
from gateway.admin.http.answers import BUFFER_REASONS
from gateway.admin.http.server import AdminServer
from gateway.app.exit_codes import ExitCode
from gateway.cli.asking import reachable
from gateway.config import HostPort
from gateway.core.state_records import AsideRecord, ClientId
from gateway.storage.state.store import StateStore
from tests.admin.http_client import sources
from tests.cli.stored import new_reading, store
from tests.cli.test_init import nobody_in_particular
from tests.cli.tidegate import environment_with, tidegate_here


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.toml").write_text(
        '[gateway]\nname = "greenhouse"\nstate_dir = "s"\n[admin]\nlisten = ""\n'
    )
    return tmp_path


def buffer(folder: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return tidegate_here("buffer", "--config", "c.toml", *arguments, folder=folder)


def lines_of(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return {line[:12].strip(): line[12:] for line in done.stdout.splitlines()}


@contextmanager
def answering(name: str, aside: Sequence[AsideRecord] = ()) -> Iterator[int]:
    """A gateway's own admin server, on a loop and a thread of its own."""
    ready, port = threading.Event(), 0
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        nonlocal port
        server = AdminServer(("127.0.0.1", 0), sources(name=name, aside=lambda: list(aside)))
        await server.start()
        port = server.listening_on[1]
        ready.set()
        await stopped.wait()
        await server.stop()

    stopped = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(20)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


# From the running gateway


def test_a_running_gateway_is_asked(folder: Path) -> None:
    with answering("greenhouse") as port:
        done = buffer(folder, "--set", f"admin.listen=0.0.0.0:{port}")
    assert done.stderr == ""
    assert lines_of(done) == {
        "gateway": f"greenhouse, running, http://127.0.0.1:{port}",
        "journal": "full: No space left on device",
        "broker": "connected to mqtt://broker.example:1883",
        "waiting": "201 readings, the oldest for 3 min 25 s",
        "used": "300.0 of 400.0 MiB, 75 % full",
        "rate": "2.0 in and 3.0 out a second",
        "drained in": "3 min 21 s",
        "dropped": "nothing",
    }


def test_json_has_what_the_gateway_says_and_who_said_it(folder: Path) -> None:
    with answering("greenhouse") as port:
        answer = json.loads(
            buffer(folder, "--json", "--set", f"admin.listen=127.0.0.1:{port}").stdout
        )
    assert (answer["schema"], answer["source"]) == ("tidegate.buffer/1", "gateway")
    assert (answer["depth"], answer["drain_s"], answer["sync_s_p99"]) == (201, 201.0, 0.214)
    assert answer["dropped"] == {reason.value: 0 for reason in BUFFER_REASONS}


def test_another_gateway_at_the_address_is_not_believed(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading()])
    with answering("roof") as port:
        done = buffer(folder, "--set", f"admin.listen=127.0.0.1:{port}")
    assert done.stderr == (
        f"another gateway answers at http://127.0.0.1:{port}, 'roof' instead of 'greenhouse'; "
        "read from files, which know no rates and no drops\n"
    )
    assert lines_of(done)["waiting"].startswith("1 readings, the oldest for ")


def test_without_a_configuration_it_is_the_one_that_runs(folder: Path) -> None:
    """Whatever its name is: no other was named."""
    with answering("roof") as port:
        done = tidegate_here("buffer", "--set", f"admin.listen=127.0.0.1:{port}", folder=folder)
    assert done.stderr == ""
    assert lines_of(done)["gateway"] == f"roof, running, http://127.0.0.1:{port}"


def test_what_is_no_gateway_is_not_believed(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading()])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n[1, 2")

        thread = threading.Thread(target=answer)
        thread.start()
        done = buffer(folder, "--set", f"admin.listen=127.0.0.1:{port}")
        thread.join()
    assert "is no gateway of this release; read from files" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        (HostPort("0.0.0.0", 8080), "127.0.0.1:8080"),
        (HostPort("::", 8080), "[::1]:8080"),
        (HostPort("10.0.0.5", 1), "10.0.0.5:1"),
    ],
)
def test_who_listens_everywhere_is_asked_on_this_machine(listen: HostPort, asked: str) -> None:
    assert str(reachable(listen)) == asked


# From files


def test_without_a_gateway_the_files_are_read_and_that_is_said(folder: Path) -> None:
    readings = [new_reading(sequence=number, age_s=100.0 - number) for number in range(5)]
    store(folder / "s" / "journal", readings, finished=readings[:2])
    done = buffer(folder)
    assert done.stderr == (
        "admin.listen names no port to ask; read from files, which know no rates and no drops\n"
    )
    found = lines_of(done)
    assert found["gateway"] == "greenhouse, files in s/journal"
    assert found["waiting"] in [f"3 readings, the oldest for 1 min {s} s" for s in range(38, 60)]
    assert (found["rate"], found["drained in"]) == ("not known", "not known")
    assert "dropped" not in found


def test_json_from_files_leaves_open_what_they_do_not_know(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading(age_s=50.0)])
    done = buffer(folder, "--json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert (answer["source"], answer["depth"], answer["gateway"]) == ("files", 1, "greenhouse")
    assert 50 <= answer["oldest_age_s"] < 110
    assert answer["budget_bytes"] == 512 * 2**20
    assert {answer[key] for key in ("condition", "in_per_s", "out_per_s", "dropped")} == {None}


def test_a_drained_journal_has_nothing_that_waits(folder: Path) -> None:
    readings = [new_reading(sequence=number) for number in range(3)]
    store(folder / "s" / "journal", readings, finished=readings)
    assert lines_of(buffer(folder))["waiting"] == "0 readings"
    assert buffer(folder, "peek").stdout == "nothing waits\n"
    done = buffer(folder, "export")
    assert (done.stdout, done.stderr) == ("", "0 readings exported; all of them still wait\n")


@pytest.mark.parametrize("action", [(), ("peek",), ("export",)])
def test_where_nothing_was_stored_there_is_no_journal(
    folder: Path, action: tuple[str, ...]
) -> None:
    done = buffer(folder, *action)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.endswith(
        "tidegate buffer: there is no journal at s/journal: nothing was stored there yet, or "
        "gateway.state_dir is another one\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be another user")
def test_files_of_somebody_else_are_a_matter_of_permission(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = folder / "s" / "journal"
    store(journal, [new_reading()])
    for path in (folder, *folder.parents[:2]):
        path.chmod(path.stat().st_mode | 0o055)
    import_module("gateway.cli.buffer")  # nobody may not read a clone below root's home
    with nobody_in_particular():
        code = main(["buffer", "peek", "--set", f"gateway.state_dir={folder}/s"])
    assert capsys.readouterr().err == (
        f"tidegate buffer: no permission to read {journal}; run this as the gateway's user, or "
        "with sudo\n"
    )
    assert code == 77


def test_a_damaged_reading_is_said_and_the_others_are_shown(folder: Path) -> None:
    journal = folder / "s" / "journal"
    for numbers in (range(6), range(6, 9)):  # what comes behind proves that it was durable
        store(journal, [new_reading(b"reading %d" % number, sequence=number) for number in numbers])
    (segment,) = journal.glob("*.segment")
    octets = segment.read_bytes()
    segment.write_bytes(octets.replace(b"reading 4", b"reading X"))
    done = buffer(folder, "peek", "--json")
    assert done.stderr.startswith(f"damaged: {segment.name}: ")
    found = [one["text"] for one in json.loads(done.stdout)["readings"]]
    assert found == [f"reading {number}" for number in range(9) if number != 4]


def test_nothing_is_changed_or_taken_away(folder: Path) -> None:
    journal = folder / "s" / "journal"
    store(journal, [new_reading(sequence=number) for number in range(10)])
    before = {path: path.read_bytes() for path in journal.iterdir()}
    for action in ((), ("peek",), ("export",)):
        assert buffer(folder, *action).returncode == 0
    assert {path: path.read_bytes() for path in journal.iterdir()} == before


# Peek

PACK = cbor2.dumps([{-2: "greenhouse/", 0: "temp", 1: "Cel", 2: 21.5}])


def test_peek_shows_the_next_readings_in_their_order(folder: Path) -> None:
    payloads = [b"21.5", b"", PACK, bytes(range(200, 256)) * 2, b"\x1b[2J", "Gewächs".encode()]
    readings = [
        new_reading(payload, sequence=number, age_s=30.0) for number, payload in enumerate(payloads)
    ]
    readings[1].qos, readings[1].retain, readings[1].topic = 2, True, "a/\x1bb"
    store(folder / "s" / "journal", readings)
    head, *lines = buffer(folder, "peek").stdout.splitlines()
    assert head.split() == ["client", "topic", "QoS", "age", "bytes", "payload"]
    at = head.index("payload")
    assert [line[at:] for line in lines] == [
        "21.5",
        "(empty)",
        '[{"bn": "greenhouse/", "n": "temp", "u": "Cel", "v": 21.5}]',
        "0x" + bytes(range(200, 249)).hex() + "...",
        "0x1b5b324a",
        "Gewächs",
    ]
    assert lines[0].startswith("greenhouse-7  sensors/boot  1         3")
    assert lines[1].startswith("greenhouse-7  a/\\x1bb       2 retain  3")


def test_peek_shows_as_many_as_asked_and_those_the_broker_has_received(folder: Path) -> None:
    readings = [new_reading(b"%d" % number, sequence=number, qos=2) for number in range(30)]
    store(folder / "s" / "journal", readings, finished=readings[:3], received=[readings[5]])
    done = buffer(folder, "peek", "--json", "-n", "4")
    answer = json.loads(done.stdout)
    assert answer["schema"] == "tidegate.buffer.peek/1"
    assert [one["text"] for one in answer["readings"]] == ["3", "4", "5", "6"]
    assert len(buffer(folder, "peek").stdout.splitlines()) == 11
    assert len(buffer(folder, "peek", "-n", "100").stdout.splitlines()) == 28


@pytest.mark.parametrize("count", ["0", "10001", "ten", "-1"])
def test_a_number_of_readings_out_of_range_is_wrong_usage(folder: Path, count: str) -> None:
    done = buffer(folder, "peek", "-n", count)
    assert done.returncode == 2
    assert "expected" in done.stderr


def test_options_may_stand_before_and_behind_the_action(folder: Path) -> None:
    store(folder / "t" / "journal", [new_reading(b"there")])
    before = ("buffer", "--config", "c.toml", "--set", f"gateway.state_dir={folder}/t")
    behind = ("--set", "gateway.name=roof", "--json")
    answer = json.loads(tidegate_here(*before, "peek", *behind, folder=folder).stdout)
    assert (answer["gateway"], answer["readings"][0]["text"]) == ("roof", "there")
    assert json.loads(tidegate_here(*before, "--json", "peek", folder=folder).stdout)["readings"]


# Export


def exported(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_export_writes_every_reading_with_its_delivery_tag(folder: Path) -> None:
    kept = new_reading(b"\xff\x00", sequence=4, qos=2, retain=True, topic="a/ü", client="pump 1")
    unsequenced = new_reading(b"x", sequence=-1, qos=0)
    store(folder / "s" / "journal", [kept, unsequenced])
    done = buffer(folder, "export")
    assert done.stderr == "2 readings exported; all of them still wait\n"
    first, second = exported(done.stdout)
    assert first == {
        "gw": "greenhouse",
        "client": "pump 1",
        "epoch": 7,
        "seq": 4,
        "ts": kept.unix_ms,
        "topic": "a/ü",
        "qos": 2,
        "retain": True,
        "payload": base64.b64encode(b"\xff\x00").decode(),
    }
    assert (second["seq"], second["epoch"], second["text"]) == (None, None, "x")


def test_export_is_whole_and_in_order_over_many_segments(folder: Path) -> None:
    readings = [new_reading(b"r" * 300, sequence=number) for number in range(8000)]
    store(folder / "s" / "journal", readings, finished=readings[10:20])
    done = buffer(folder, "export", "--output", "out.jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == "7990 readings exported; all of them still wait"
    found = [one["seq"] for one in exported((folder / "out.jsonl").read_text())]
    assert found == [*range(10), *range(20, 8000)]


def test_export_replaces_nothing_unless_forced(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading()])
    (folder / "out").write_text("mine")
    done = buffer(folder, "export", "--output", "out")
    assert done.returncode == 73
    assert done.stderr == "tidegate buffer: out is there already; --force replaces it\n"
    assert (folder / "out").read_text() == "mine"
    assert buffer(folder, "export", "--output", "out", "--force").returncode == 0
    assert len(exported((folder / "out").read_text())) == 1


def test_a_device_stays_when_it_takes_no_export(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading()])
    (folder / "out").symlink_to("/dev/full")
    done = buffer(folder, "export", "--output", "out", "--force")
    assert done.returncode == 73
    assert (folder / "out").is_symlink()


def test_a_folder_that_is_missing_is_named(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading()])
    done = buffer(folder, "export", "--output", "a/out")
    assert done.returncode == 73
    assert done.stderr == "tidegate buffer: cannot write a/out: No such file or directory\n"


def test_a_full_disk_leaves_no_half_of_an_export(folder: Path) -> None:
    """A limit on the size of files stops the writing as a full disk would."""
    store(folder / "s" / "journal", [new_reading(sequence=number) for number in range(1000)])
    code = (
        "import resource, sys; from gateway.__main__ import main; import gateway.cli.buffer;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "sys.exit(main(['buffer', '--config', 'c.toml', 'export', '--output', 'out']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment_with({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    said = "tidegate buffer: cannot write out: no file may become larger than 9000 bytes"
    assert done.stderr.startswith(said)
    assert done.returncode == 73
    assert not (folder / "out").exists()


def test_a_closed_pipe_ends_an_export_quietly(folder: Path) -> None:
    store(folder / "s" / "journal", [new_reading(sequence=number) for number in range(5000)])
    command = subprocess.Popen(
        [sys.executable, "-m", "gateway", "buffer", "--config", "c.toml", "export"],
        cwd=folder,
        env=environment_with({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    assert command.stdout.readline().startswith(b'{"gw"')
    command.stdout.close()
    assert command.stderr.read() == b""
    command.stderr.close()
    assert command.wait() == 1


def test_a_wrong_configuration_is_refused(folder: Path) -> None:
    done = buffer(folder, "--set", "gateway.id=300")
    assert (done.returncode, os.linesep in done.stderr) == (78, True)
    assert done.stderr.startswith("command line: gateway.id: expected")


# Set aside


RECORD = AsideRecord(
    number=3,
    client_id=ClientId("pump"),
    topic="pumps/x",
    payload=b"\x00\xff7",
    qos=1,
    retain=True,
    epoch=2,
    sequence=17,
    packet_id=18,
    unix_ms=1_700_000_000_000,
    set_aside_ms=1_700_000_001_000,
    reason="the broker answered PUBACK 0x87",
)


def set_aside(folder: Path, *records: AsideRecord) -> None:
    (folder / "s").mkdir()
    store = StateStore.open(folder / "s")
    store.commit(records)
    store.close()


def test_what_is_set_aside_is_read_from_files_where_no_gateway_runs(folder: Path) -> None:
    set_aside(folder, RECORD)
    done = buffer(folder, "aside")
    head, row = done.stdout.splitlines()
    assert head.split("  ")[0] == "number"
    assert row.split()[:4] == ["3", "pump", "pumps/x", "1"]
    assert row.endswith("the broker answered PUBACK 0x87")
    assert "read from files" in done.stderr
    (one,) = json.loads(buffer(folder, "aside", "--json").stdout)["readings"]
    assert (one["number"], one["client"], one["seq"], one["payload"]) == (3, "pump", 17, "AP83")


def test_nothing_set_aside_is_said(folder: Path) -> None:
    assert buffer(folder, "aside").stdout == "nothing is set aside (files in s)\n"
    set_aside(folder)
    assert "nothing is set aside" in buffer(folder, "aside").stdout


def test_a_running_gateway_is_asked_for_what_is_set_aside(folder: Path) -> None:
    with answering("greenhouse", aside=[RECORD]) as port:
        listen = ("--set", f"admin.listen=127.0.0.1:{port}")
        done = buffer(folder, "aside", *listen)
        assert (done.stderr, done.stdout.count("pump")) == ("", 2)
        done = buffer(folder, "aside", "export", "--output", "out.jsonl", *listen)
    assert done.stderr == "1 readings exported; all of them are still set aside\n"
    (line,) = (folder / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["number"] == 3


@pytest.mark.parametrize("action", ["send", "delete"])
def test_to_send_or_delete_takes_a_running_gateway(folder: Path, action: str) -> None:
    (folder / "word").write_text("tide\n")
    done = buffer(folder, "aside", action, "1", "--password-file", "word")
    assert (done.returncode, done.stdout) == (ExitCode.UNAVAILABLE, "")
    assert done.stderr.startswith("tidegate buffer: admin.listen names no port to ask; start one")


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "9" * 30])
def test_a_number_that_is_none_is_refused(folder: Path, number: str) -> None:
    done = buffer(folder, "aside", "delete", "--", number)
    assert done.returncode == ExitCode.USAGE
    assert "a number of the list or all" in done.stderr


# `tidegate health`, of the same server


def test_health_is_an_exit_code_for_a_supervisor(folder: Path) -> None:
    with answering("greenhouse") as port:
        asked = ("health", "--set", f"admin.listen=127.0.0.1:{port}")
        done = tidegate_here(*asked, folder=folder)
        shown = json.loads(tidegate_here(*asked, "--json", folder=folder).stdout)
        by_variable = tidegate_here(
            "health", folder=folder, environment={"TIDEGATE_ADMIN__LISTEN": f"0.0.0.0:{port}"}
        )
    assert done.returncode == by_variable.returncode == 0
    assert done.stdout.splitlines()[0] == shown["status"]
    away = tidegate_here(*asked, folder=folder)
    assert away.returncode == 69
    assert f"tidegate health: no gateway answers at http://127.0.0.1:{port}: " in away.stderr
    off = tidegate_here("health", "--set", "admin.listen=", folder=folder)
    assert (off.returncode, off.stderr) == (
        69,
        "tidegate health: admin.listen names no port to ask\n",
    )


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        ('{"status": "failing", "restart_helps": true, "checks": {"loop": {"ok": false, "reason": '
         '"stands still"}}}', 503, 1, "failing\nloop: stands still\n"),
        ('{"status": "failing", "restart_helps": false, "checks": {"journal": {"ok": false, '
         '"reason": "the disk fails"}}}', 200, 0, "failing\njournal: the disk fails\n"),
        ("<html>", 200, 69, ""),
    ],
)  # fmt: skip
def test_health_fails_only_where_a_restart_helps(
    folder: Path, body: str, status: int, code: int, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(f"HTTP/1.0 {status} X\r\n\r\n{body}".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        done = tidegate_here("health", "--set", f"admin.listen=127.0.0.1:{port}", folder=folder)
        thread.join()
    assert (done.returncode, done.stdout) == (code, said)
