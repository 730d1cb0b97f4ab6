"""`tidegate report`: what is in it, whatever is wrong, and that no secret is."""

from __future__ import annotations

import json
import os
import socket
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.cli.report import parts
from gateway.cli.report.parts import Part, made
from gateway.cli.report.redaction import PLAIN_KINDS, SHOWN_TEXTS, Redaction, secret_files
from gateway.config.keys import ROOT
from gateway.config.schema import Key, Named, Node, Repeated, Table
from gateway.config.spelling import KeyPath, quoted
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_port
from tests.cli.tidegate import tidegate_here

NAMES = {
    *("configuration.txt", "versions.txt", "system.txt", "check.txt", "doctor.txt", "status.txt"),
    *("buffer.txt", "status.json", "health.json", "metrics.txt", "log.txt", "service.txt"),
    "README.txt",
}


def opened(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        entries = {Path(entry.name).name: archive.extractfile(entry) for entry in archive}
        return {name: file.read().decode() for name, file in entries.items() if file is not None}


def report(folder: Path, *arguments: str | Path, **environment: str) -> dict[str, str]:
    path = folder / "report.tar.gz"
    path.unlink(missing_ok=True)
    done = tidegate_here("report", path, *arguments, folder=folder, environment=environment)
    assert done.returncode == ExitCode.OK, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = opened(path)
    assert found.keys() == NAMES
    for name in NAMES - {"README.txt"}:
        assert name in done.stdout
    return found


def keys(node: Node = ROOT, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Key]]:
    """All keys of the table, with a path at which the file may have each."""
    match node:
        case Key():
            yield path, node
        case Table():
            for part in node.parts:
                yield from keys(part, (*path, part.name))
        case Repeated():
            yield from keys(node.entry, (*path, 0))
        case Named():
            yield from keys(node.entry, (*path, f"name-{len(path)}"))


KEYS = list(keys())


def name_of(path: KeyPath) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def secret(number: int) -> str:
    return f"Secret-{number:03}-\u00e4\\x"


def toml_of(values: dict[KeyPath, str]) -> str:
    lines = []
    for path, value in values.items():
        table = [part for part in path[:-1] if isinstance(part, str)]
        dotted = ".".join(map(quoted, table))
        header = f"[[{dotted}]]" if 0 in path else f"[{dotted}]"
        if header not in lines:
            lines.append(header)
        lines.append(f"{quoted(str(path[-1]))} = {quoted(value)}")
    return "\n".join(lines) + "\n"


def test_no_value_of_any_key_that_may_be_a_secret_is_in_it(tmp_path: Path) -> None:
    """Each key of the table has one, and so has each that will be added to it."""
    planted = {path: secret(number) for number, (path, _) in enumerate(KEYS)}
    config = tmp_path / "config.toml"
    config.write_text(f"# Comment-Secret\n{toml_of(planted)}[wifi]\npassword = 'Unknown-Secret'\n")
    found = report(tmp_path, "--config", config)
    for number, (path, key) in enumerate(KEYS):
        mark = f"Secret-{number:03}"
        where = [name for name, text in found.items() if mark in text]
        assert not where or name_of(path) in SHOWN_TEXTS, (name_of(path), where)
        assert key.name in found["configuration.txt"]
    everything = "".join(found.values())
    assert "Unknown-Secret" not in everything
    assert "Comment-Secret" not in everything
    assert "expected" in found["check.txt"]  # all that is wrong is said all the same


@pytest.mark.parametrize("is_variable", [True, False])
def test_nor_is_what_was_given_beside_the_file(tmp_path: Path, is_variable: bool) -> None:
    variables, sets = {}, []
    fixed = [path for path, _ in KEYS if not any("name-" in str(part) for part in path)]
    for number, path in enumerate(fixed):
        if name_of(path) in SHOWN_TEXTS:
            continue
        if is_variable:
            variables["TIDEGATE_" + "__".join(map(str, path)).upper()] = secret(number)
        else:
            sets.append(f"--set={'.'.join(map(str, path))}={secret(number)}")
    sets.append("--set=Secret-without-a-key")
    found = report(tmp_path, *sets, **variables)
    assert "Secret-" not in "".join(found.values())
    assert "(removed)" in found["configuration.txt"]


def test_a_text_is_shown_only_by_name_and_each_such_name_is_a_key() -> None:
    texts = {name_of(path) for path, key in KEYS if not isinstance(key.kind, PLAIN_KINDS)}
    assert texts > SHOWN_TEXTS
    assert not any("file" in name or "user" in name for name in SHOWN_TEXTS)


def test_what_is_in_files_with_secrets_is_not_in_it(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    lines = [f'[gateway]\nstate_dir = "{tmp_path}"\n[upstream]\nusername = "token-abcdef"']
    lines.append('url = "mqtts://127.0.0.1:1"')
    files = sorted(key.rpartition(".")[2] for key in secret_files() if key.startswith("upstream."))
    for number, name in enumerate(files):
        (tmp_path / f"{name}.pem").write_text(f"FileSecret-{number}\n")
        lines.append(f'{name} = "{name}.pem"')
    (tmp_path / "admin").write_text("AdminSecret\n")
    lines.append('[admin]\npassword_file = "admin"\nlisten = "127.0.0.1:1"')
    config.write_text("\n".join(lines))
    assert {"upstream.password_file", "admin.password_file"} <= set(secret_files())
    everything = "".join(report(tmp_path, "--config", config).values())
    for mark in ("FileSecret", "AdminSecret", "token-abcdef"):
        assert mark not in everything
    assert 'url = "mqtts://127.0.0.1:1"' in everything


@pytest.mark.parametrize(
    "text",
    [
        'url = "mqtt://me:Planted1@host"\npassword = "Planted2"\n[[[',
        "url = mqtt://me:Planted1@host\npassword: Planted2",
        "url = 'mqtt://Planted1@host\n\xff",
    ],
)
def test_a_configuration_that_is_no_toml_shows_nothing_of_itself(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.toml"
    config.write_bytes(text.encode("latin-1"))
    found = report(tmp_path, "--config", config)
    assert "Planted" not in "".join(found.values())
    assert "not TOML" in found["configuration.txt"]


def test_without_a_gateway_and_without_a_file_each_part_says_so(tmp_path: Path) -> None:
    found = report(
        tmp_path, "--set=admin.listen=127.0.0.1:1", f"--set=gateway.state_dir={tmp_path}"
    )
    assert "no gateway answers" in found["metrics.txt"]
    assert "no gateway answers" in found["status.txt"]
    assert "no configuration file" in found["check.txt"]
    assert "python 3" in found["versions.txt"]
    assert "MemTotal" in found["system.txt"]
    missing = report(tmp_path, "--config", tmp_path / "missing.toml")
    assert "not available" in missing["configuration.txt"]


def test_of_a_gateway_that_runs_it_has_status_metrics_and_log(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    page = f'[admin]\nlisten = "127.0.0.1:{free_port(socket.SOCK_STREAM)}"\n'
    with Mosquitto() as broker, GatewayProcess(folder, broker.url, page) as gateway:
        found = report(tmp_path, "--config", gateway.config_path)
    assert json.loads(found["status.json"])["gateway"]
    assert "tidegate_" in found["metrics.txt"]
    assert "tidegate" in found["log.txt"]
    assert "exit code 0" in found["check.txt"]


def test_it_replaces_no_file_and_leaves_no_part_of_one(tmp_path: Path) -> None:
    path = tmp_path / "there.tar.gz"
    path.write_text("mine")
    done = tidegate_here("report", path, folder=tmp_path)
    assert done.returncode == ExitCode.CANNOT_CREATE
    assert "is there already" in done.stderr
    assert path.read_text() == "mine"
    link = tmp_path / "link.tar.gz"
    link.symlink_to(tmp_path / "elsewhere")
    assert tidegate_here("report", link, folder=tmp_path).returncode == ExitCode.CANNOT_CREATE
    assert not (tmp_path / "elsewhere").exists()
    done = tidegate_here("report", tmp_path / "no" / "x.tar.gz", folder=tmp_path)
    assert done.returncode == ExitCode.CANNOT_CREATE


def test_json_says_what_is_in_it(tmp_path: Path) -> None:
    done = tidegate_here("report", "--json", "--set=admin.listen=127.0.0.1:1", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert {part["name"] for part in answer["parts"]} == NAMES - {"README.txt"}
    assert opened(Path(answer["file"])).keys() == NAMES


# Texts of any kind


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("mqtt://me:pw@host:1/x", "mqtt://(removed)@host:1/x"),
        ('password = "open sesame"', "password = (removed)"),
        ("WIFI_PASSWORD: abc next", "WIFI_PASSWORD: (removed) next"),
        ('{"token": "abc"}', '{"token": (removed)}'),
        ("upstream.password_file: cannot be read", "upstream.password_file: cannot be read"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "(removed)\nx"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "(removed)"),
        ("dropped payload=b'21.5' qos=1", "dropped payload=(removed) qos=1"),
        ("DEBUG ttyUSB0 prints: wlan key is abc\nnext", "DEBUG ttyUSB0 prints: (removed)\nnext"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_any_text(text: str, clean: str) -> None:
    assert Redaction().clean(text) == clean


def test_what_was_hidden_is_hidden_in_every_spelling() -> None:
    redaction = Redaction()
    long = "x" * 300
    redaction.hide({"a": ['quo"te\u00e9\x07', long, "abc"], "b": 4711})
    redaction.shown.add("4711")
    spelled = [
        'quo"te\u00e9\x07',
        json.dumps('quo"te\u00e9\x07'),
        'quo"te\u00e9\\x07',
        f"{long[:80]}...",
    ]
    for text in spelled:
        assert "quo" not in redaction.clean(text)
        assert "x" * 9 not in redaction.clean(text)
    assert redaction.clean("abc 4711") == "abc 4711"


def test_a_word_of_every_report_stays_readable() -> None:
    redaction = Redaction()
    redaction.hide(["admin", "mqtt", "Journal"])
    text = "admin.listen, mqtt://127.0.0.1, journal"
    assert redaction.clean(text) == text


def test_a_part_has_a_size_and_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES_MAX", 10)
    head = Part("a", "", lambda: "0123456789abc")
    assert made(head, Redaction()) == b"0123456789\n(cut: 13 bytes)\n"
    tail = Part("a", "", lambda: "0123456789abc", cut_from_start=True)
    assert made(tail, Redaction()) == b"(cut: 13 bytes)\n3456789abc"
    reader, writer = os.pipe()
    hung = Part("a", "", lambda: os.read(reader, 1).decode(), seconds=0.1)
    assert made(hung, Redaction()) == b"(no answer within 0 s)\n"[:10] + b"\n(cut: 23 bytes)\n"
    os.close(writer)


def test_a_verb_that_hangs_is_ended(tmp_path: Path) -> None:
    text = parts._command(["sh", "-c", "echo begun; exec sleep 60"], 0.3)
    assert text == "begun\n(no end within 0 s)\n"
    assert "does not run here" in parts._command([str(tmp_path / "missing")])
