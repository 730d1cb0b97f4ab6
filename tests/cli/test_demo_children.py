"""The demo's child processes: real programs, real signals, real logs."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.cli.demo import broker_process, children
from gateway.cli.demo.broker_process import find_mosquitto, start_broker
from gateway.cli.demo.children import Child
from gateway.cli.demo.failure import DemoError
from gateway.cli.demo.gateway_process import Ports, environment, start_gateway
from gateway.cli.demo.play import free_port

PATIENCE_S = 200.0


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def await_end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], PATIENCE_S)
    os.close(process)
    assert ended, f"{pid} is still running"


# Ending


def test_a_child_that_obeys_is_ended_by_sigterm(tmp_path: Path) -> None:
    async def story() -> int | None:
        child = await Child.start("sleeper", ["sleep", "60"], tmp_path)
        await child.end()
        return child.running.returncode

    assert asyncio.run(story()) == -signal.SIGTERM


def test_a_child_that_does_not_obey_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "END_S", 0.2)
    stubborn = python(
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "open(sys.argv[1], 'w').close(); time.sleep(60)"
    )
    deaf = tmp_path / "deaf"
    os.mkfifo(deaf)

    async def story() -> int | None:
        child = await Child.start("stubborn", [*stubborn, str(deaf)], tmp_path)
        await asyncio.to_thread(deaf.read_bytes)  # until the child, deaf by now, has opened it
        await child.end()
        return child.running.returncode

    assert asyncio.run(story()) == -signal.SIGKILL


def test_a_child_dies_with_the_demo_even_if_that_is_killed(tmp_path: Path) -> None:
    demo = python(
        "import asyncio, pathlib, sys\n"
        "from gateway.cli.demo.children import Child\n"
        "async def story():\n"
        "    child = await Child.start('sleeper', ['sleep', '60'], pathlib.Path(sys.argv[1]))\n"
        "    print(child.running.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(story())\n"
    )
    with subprocess.Popen([*demo, str(tmp_path)], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.kill()
    await_end(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_a_child(tmp_path: Path) -> None:
    async def story() -> bool:
        child = await Child.start("sleeper", ["sleep", "60"], tmp_path)
        own_group = os.getpgid(child.running.pid) != os.getpgid(0)
        await child.end()
        return own_group

    assert asyncio.run(story())


# Failing


def test_a_child_that_ends_by_itself_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    many_lines = python("import sys\nfor n in range(100): print('line', n)\nsys.exit(3)")

    async def story() -> DemoError:
        child = await Child.start("thing", many_lines, tmp_path)
        return await child.ended()

    failure = asyncio.run(story())
    assert str(failure) == "The thing ended with exit code 3."
    lines = failure.evidence.splitlines()
    assert lines[-1] == "line 99"
    assert len(lines) == children.EVIDENCE_LINES


def test_a_child_that_was_killed_is_reported_with_the_signal(tmp_path: Path) -> None:
    async def story() -> DemoError:
        child = await Child.start("sleeper", ["sleep", "60"], tmp_path)
        child.running.kill()
        return await child.ended()

    assert str(asyncio.run(story())) == "The sleeper was ended by signal 9."


# The broker


def test_the_broker_accepts_connections_when_it_is_started(tmp_path: Path) -> None:
    port = free_port("tcp")

    async def story() -> None:
        broker = await start_broker(tmp_path, port)
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        await broker.end()

    asyncio.run(story())


def test_the_broker_dies_with_a_demo_that_is_killed_whoever_started_it(tmp_path: Path) -> None:
    demo = python(
        "import asyncio, pathlib, sys\n"
        "from gateway.cli.demo.broker_process import start_broker\n"
        "from gateway.cli.demo.play import free_port\n"
        "async def story():\n"
        "    broker = await start_broker(pathlib.Path(sys.argv[1]), free_port('tcp'))\n"
        "    print(broker.running.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(story())\n"
    )
    with subprocess.Popen([*demo, str(tmp_path)], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.kill()
    await_end(pid)


def test_a_broker_on_a_taken_port_fails_with_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", port))  # bound and not listening: refuses connections
            with pytest.raises(DemoError, match="broker ended") as failed:
                asyncio.run(start_broker(tmp_path, port))
    assert "in use" in failed.value.evidence


def test_without_mosquitto_the_message_has_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker_process, "SYSTEM_PLACES", ())
    with pytest.raises(DemoError, match="sudo apt-get install -y mosquitto") as failed:
        find_mosquitto()
    assert failed.value.code == ExitCode.UNAVAILABLE


def test_mosquitto_is_found_where_debian_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sbin" / "mosquitto"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker_process, "SYSTEM_PLACES", (str(program.parent),))
    assert find_mosquitto() == str(program)


# The gateway


def test_a_gateway_that_fails_at_once_is_reported_with_what_it_said(tmp_path: Path) -> None:
    broken = python("import sys; print('no such key: udpp', file=sys.stderr); sys.exit(78)")
    with pytest.raises(DemoError, match="gateway ended with exit code 78") as failed:
        asyncio.run(start_gateway(tmp_path, Ports(1, free_port("udp"), 1), broken))
    assert failed.value.evidence == "no such key: udpp"


def test_a_gateway_that_does_not_answer_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.demo.gateway_process.START_S", 0.3)
    silent = python("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    with pytest.raises(DemoError, match="did not answer on UDP port") as failed:
        asyncio.run(start_gateway(tmp_path, Ports(1, free_port("udp"), 1), silent))
    await_end(int(failed.value.evidence))


def test_settings_of_the_environment_do_not_reach_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_UPSTREAM__URL", "mqtt://production:1883")
    assert not [name for name in environment() if name.startswith("TIDEGATE_")]


def test_the_gateway_is_this_package_and_finds_what_the_demo_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/usr/lib/sensors:/usr/lib/more")
    ours, *others = environment()["PYTHONPATH"].split(os.pathsep)
    assert Path(ours, "gateway", "__init__.py").exists()
    assert others == ["/usr/lib/sensors", "/usr/lib/more"]
