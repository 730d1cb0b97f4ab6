"""The broker that other tests build on starts, stops and comes back as they expect."""

import os
import socket
from pathlib import Path

import pytest

from hil.rig.mosquitto import BrokerError, Mosquitto, free_tcp_port, mosquitto_version


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except ConnectionRefusedError:
        return False
    return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_started_broker_takes_connections_and_leaves_nothing_behind() -> None:
    with Mosquitto() as broker:
        pid, folder, port = broker.pid, broker.folder, broker.port
        assert broker.running
        assert takes_connections(port)
        assert "running" in broker.log_text()
    assert not is_alive(pid)
    assert not folder.exists()
    assert not takes_connections(port)


def test_a_restarted_broker_is_a_new_process_on_the_same_port() -> None:
    with Mosquitto() as broker:
        before = (broker.port, broker.pid)
        broker.restart()
        assert broker.port == before[0]
        assert broker.pid != before[1]
        assert takes_connections(broker.port)


def test_a_killed_broker_says_no_goodbye_and_can_be_started_again() -> None:
    with Mosquitto() as broker:
        broker.kill()
        assert not broker.running
        assert "terminating" not in broker.log_text()
        with pytest.raises(BrokerError, match="not running"):
            _ = broker.pid
        broker.start()
        assert takes_connections(broker.port)


def test_persistence_survives_a_restart_in_a_folder_of_the_caller(tmp_path: Path) -> None:
    with Mosquitto(["persistence true"], folder=tmp_path) as broker:
        broker.restart()
        assert (tmp_path / "mosquitto.db").exists()
    assert broker.log_path.exists()


def test_a_second_start_is_refused_while_the_first_runs() -> None:
    with Mosquitto() as broker, pytest.raises(BrokerError, match="already runs"):
        broker.start()


def test_a_port_in_use_is_told() -> None:
    with Mosquitto() as first:
        second = Mosquitto(port=first.port)
        with pytest.raises(BrokerError, match="in use"):
            second.start()
        second.close()


def test_a_wrong_line_of_configuration_is_told_with_the_words_of_the_broker() -> None:
    with pytest.raises(BrokerError, match="Unknown configuration variable"):
        Mosquitto(["no_such_option true"]).__enter__()


def test_the_port_is_unknown_before_the_first_start() -> None:
    broker = Mosquitto()
    with pytest.raises(BrokerError, match="no port"):
        _ = broker.port
    broker.close()


def test_a_free_port_is_free_and_the_version_is_a_number() -> None:
    assert not takes_connections(free_tcp_port())
    assert mosquitto_version()[0].isdigit()
