"""Taking a backup: of a gateway that stands still, and of one under load."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from gateway.storage.state.folder import open_state
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.cli.tidegate import tidegate
from tests.storage.backup.support import exported, gateway_folder, rows
from tests.support.plain_sensors import PlainSensors

NOWHERE = "mqtt://127.0.0.1:1"
SENSORS = 20
BACKUPS = 3


def restored(backup: Path, folder: Path) -> Path:
    config = folder / "config.toml"
    done = tidegate(
        "restore",
        backup,
        "--config",
        config,
        "--set",
        f"gateway.state_dir={folder}/state",
        folder=folder.parent,
    )
    assert done.returncode == 0, done.stderr
    text = config.read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("state_dir")]
    config.write_text(text.replace(line, f'state_dir = "{folder}/state"'))
    return config


def test_a_gateway_that_runs_gives_all_that_it_had_acknowledged(tmp_path: Path) -> None:
    more = '[admin]\nlisten = ""\n'
    with GatewayProcess(tmp_path, NOWHERE, more) as gateway:
        with PlainSensors(gateway.port, "s", SENSORS) as sensors:
            sensors.send([float(value) for value in range(10)])
        done = tidegate("backup", "b", "--config", gateway.config_path, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert gateway.stop() == 0
    config = restored(tmp_path / "b", tmp_path / "new")
    found = exported(config)
    assert len(found) == SENSORS * 10
    assert found == exported(gateway.config_path)
    assert rows(tmp_path / "new/state/state.db") == rows(tmp_path / "state/state.db")


@pytest.mark.parametrize("with_broker", [False, True])
def test_every_backup_under_load_is_one_moment(tmp_path: Path, with_broker: bool) -> None:
    """Small segments, so that they begin, are freed and are used again while they are copied."""
    more = '[journal]\nacknowledge = "journal"\nsize_max = "2MiB"\nwhen_full = "drop_oldest"\n'
    over = threading.Event()
    rounds: list[int] = []
    number = 0

    def load(port: int) -> None:
        while not over.is_set():
            with PlainSensors(port, f"s{len(rounds)}", SENSORS) as sensors:
                sensors.send([float(value) for value in range(50)])
            rounds.append(SENSORS * 50)

    with Mosquitto() as broker:
        gateway = GatewayProcess(tmp_path, broker.url if with_broker else NOWHERE, more)
        with gateway:
            worker = threading.Thread(target=load, args=(gateway.port,))
            worker.start()
            try:
                # On a machine that has little time for the load, more than so many.
                while number < BACKUPS or len(rounds) < BACKUPS:
                    done = tidegate(
                        "backup", f"b{number}", "--config", gateway.config_path, folder=tmp_path
                    )
                    assert done.returncode == 0, done.stderr
                    number += 1
            finally:
                over.set()
                worker.join()
    for taken in range(number):
        config = restored(tmp_path / f"b{taken}", tmp_path / f"new{taken}")
        by_client: dict[str, list[int]] = {}
        for each in exported(config):  # which complains of damage
            by_client.setdefault(each["client"], []).append(each["seq"])
        for sequences in by_client.values():
            assert sequences == sorted(set(sequences))
        folder = open_state(config.parent / "state")
        folder.release()
        assert folder.store.skipped == 0


def test_without_a_configuration_file_or_a_state_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    done = tidegate("backup", "b", "--set", "gateway.state_dir=s", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no configuration, as there is no file, no state, as there is none yet" in done.stdout


def test_nothing_is_replaced_unasked_and_no_part_is_left(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    (tmp_path / "b").write_text("mine")
    done = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert (done.returncode, (tmp_path / "b").read_text()) == (73, "mine")
    assert done.stderr == "tidegate backup: b is there already; --force replaces it\n"
    done = tidegate("backup", "b", "--config", config, "--force", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["schema"] == "tidegate.backup/1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "config.toml", "state"]


def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    os.mkfifo(tmp_path / "b")
    done = tidegate("backup", "b", "--config", config, "--force", folder=tmp_path)
    assert (done.returncode, (tmp_path / "b").is_fifo()) == (73, True)
    assert done.stderr == "tidegate backup: b is no plain file, and is not replaced\n"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path, readings=0)
    done = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (73, 1)
    assert f"{tmp_path}/state: No such file or directory" in done.stderr
    (tmp_path / "state").mkdir()
    done = tidegate("backup", "no/b", "--config", config, folder=tmp_path)
    assert done.returncode == 73
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml", "state"]


def test_a_damaged_state_is_no_backup(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    (tmp_path / "state" / "state.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    done = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert done.returncode == 1
    assert "state.db is damaged: restart the gateway, which sets it aside" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_certificate_with_a_key_in_it_is_a_secret(tmp_path: Path) -> None:
    more = 'ca_file = "ca.pem"\ncert_file = "both.pem"\n'
    config = gateway_folder(tmp_path, more)
    config.write_text(config.read_text().replace("mqtt://127.0.0.1:1", "mqtts://127.0.0.1:1"))
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "both.pem").write_text(
        "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nsecret\n"
    )
    done = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert "not in it: upstream.cert_file" in done.stderr
    listed = json.loads(tidegate("restore", "--list", "b", "--json", folder=tmp_path).stdout)
    assert (listed["files"], listed["has_secrets"]) == (["upstream.ca_file"], False)


def test_a_credential_of_the_service_is_named_as_left_out(tmp_path: Path) -> None:
    more = 'username = "g"\npassword_file = "credential:tidegate.upstream.password"\n'
    config = gateway_folder(tmp_path, more)
    done = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        0,
        "not in it: upstream.password_file; --with-secrets adds them\n",
    )
