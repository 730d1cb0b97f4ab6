"""docs/examples/home_assistant_app: as the Supervisor reads it, and run beside one that is played.

The form is that of the Supervisor (supervisor/addons/validate.py and options.py, 2026). There is no
container engine in most places where these tests run, so what the container would run is run here.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TextIO

import pytest
import yaml  # type: ignore[import-untyped]

from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_port, free_udp_port
from tests.examples import EXAMPLES
from tests.support.waiting import until

APP = EXAMPLES / "home_assistant_app" / "tidegate"
RUN = APP / "run.py"
REPOSITORY = EXAMPLES.parents[1]
TOKEN = "of the supervisor"
NAME = "greenhouse"

# The Supervisor's own form of an option, without what this app has not.
OPTION = re.compile(
    r"(bool|email|url|port|str|password|int\(\d+,\d+\)|match\(.*\)|list\(.+\)"
    r"|device(\((?P<filter>subsystem=[a-z]+)\))?)\??"
)
KEYS = {
    "name": str, "version": str, "slug": str, "description": str, "arch": list, "stage": str,
    "startup": str, "host_network": bool, "uart": bool, "services": list, "ingress": bool,
    "ingress_port": int, "panel_icon": str, "panel_title": str, "map": list, "timeout": int,
    "backup": str, "backup_pre": str, "backup_post": str, "backup_exclude": list, "options": dict,
    "schema": dict,
}  # fmt: skip


def read(name: str) -> dict[str, Any]:
    found = yaml.safe_load((APP / name).read_text())
    assert isinstance(found, dict)
    return found


class Supervisor(BaseHTTPRequestHandler):
    """Answers as the real one does: `data` within an envelope, and nothing without the token."""

    services: dict[str, Any] | None
    about: dict[str, Any]

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._say(401, {"result": "error", "message": "unauthorized"})
        elif self.path == "/services/mqtt" and self.services is not None:
            self._say(200, {"result": "ok", "data": self.services})
        elif self.path == "/services/mqtt":
            self._say(400, {"result": "error", "message": "Service not enabled"})
        elif self.path == "/addons/self/info":
            self._say(200, {"result": "ok", "data": self.about})
        else:
            self._say(404, {"result": "error"})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def supervisor(services: dict[str, Any] | None, ingress_port: int) -> Iterator[str]:
    about = {"ip_address": "127.0.0.1", "ingress_port": ingress_port}
    handler = type("Played", (Supervisor,), {"services": services, "about": about})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class App:
    """What the container has: folders, options, environment."""

    def __init__(self, folder: Path, url: str, page_port: int) -> None:
        self.data, self.config = folder / "data", folder / "config"
        self.data.mkdir()
        self.config.mkdir()
        self.page_port = page_port
        self.options = read("config.yaml")["options"] | {
            "name": NAME,
            "udp_port": free_udp_port(),
            "search": False,
        }
        self._environment = os.environ | {
            "APP_DATA": str(self.data), "APP_CONFIG": str(self.config), "APP_SUPERVISOR": url,
            "SUPERVISOR_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """To its end, which is at once where something is wrong."""
        self.write_options()
        return subprocess.run(
            [sys.executable, RUN, *arguments], env=self._environment, capture_output=True,
            text=True, timeout=200, check=False,
        )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[None]:
        self.write_options()
        log = self.data.parent / "log"
        with (
            log.open("a") as output,
            subprocess.Popen(
                [sys.executable, RUN], env=self._environment, stdout=output, stderr=output
            ) as process,
        ):
            try:
                until(lambda: self.page("/healthz") == 200 or process.poll() is not None)
                assert process.poll() is None, log.read_text()
                yield
            finally:
                process.terminate()
                process.wait()
        assert process.returncode == 0, log.read_text()

    def started(self, output: TextIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, RUN], env=self._environment, stdout=output, stderr=output
        )

    def page(self, path: str, host: str = "home.example.org:8123") -> int | None:
        """The status code of an answer, under the name that the browser has for Home Assistant."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page_port, timeout=200)
        try:
            connection.request("GET", path, headers={"Host": host})
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def write_options(self) -> None:
        (self.data / "options.json").write_text(json.dumps(self.options))


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def app(tmp_path: Path, broker: Mosquitto) -> Iterator[App]:
    port = free_port(socket.SOCK_STREAM)
    services = {"host": "core-mosquitto.invalid", "port": broker.port, "ssl": False,
                "username": "addons", "password": "tide", "protocol": "3.1.1"}  # fmt: skip
    with supervisor(services, port) as url:
        yield App(tmp_path, url, port)


def test_its_keys_are_those_of_the_supervisor() -> None:
    config = read("config.yaml")
    assert {key: type(value) for key, value in config.items()} == KEYS
    assert re.fullmatch(r"[-_.A-Za-z0-9]+", config["slug"])
    assert set(config["arch"]) <= {"amd64", "aarch64"}
    assert config["stage"] in {"stable", "experimental", "deprecated"}
    assert config["startup"] in {"initialize", "system", "services", "application", "once"}
    assert config["backup"] in {"hot", "cold"}
    assert 10 <= config["timeout"] <= 300
    assert all(re.fullmatch(r"(mqtt|mysql):(provide|want|need)", one) for one in config["services"])
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert config["version"] == project["version"]


def test_each_option_has_a_form_a_default_and_words() -> None:
    config, words = read("config.yaml"), read("translations/en.yaml")["configuration"]
    assert set(words) == set(config["schema"])
    for name, form in config["schema"].items():
        entries = form[0] if isinstance(form, list) else {"": form}
        assert all(OPTION.fullmatch(each) for each in entries.values()), name
        is_optional = isinstance(form, str) and form.endswith("?")
        assert (name in config["options"]) is not is_optional
        fields = words[name].get("fields", {})
        assert set(fields) == (set(entries) if isinstance(form, list) else set())
        for each in [words[name], *fields.values()]:
            assert each["name"]
            assert each["description"].endswith(".")


def test_the_image_copies_what_is_put_beside_it() -> None:
    lines = (APP / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [each for line in lines if line.startswith("COPY") for each in shlex.split(line)[1:-1]]
    assert copied == ["requirements-gateway.lock", "tidegate-*.whl", "run.py"]
    script = (REPOSITORY / ".ci" / "home-assistant-app.sh").read_text()
    assert "cp .ci/requirements-gateway.lock" in script
    assert "build -t wheel" in script
    assert (REPOSITORY / ".ci" / "requirements-gateway.lock").exists()
    assert RUN.name in copied
    repository = yaml.safe_load((APP.parent / "repository.yaml").read_text())
    assert set(repository) == {"name", "url", "maintainer"}


def test_it_runs_with_the_broker_and_the_page_that_the_supervisor_names(app: App) -> None:
    app.options["serial"] = [{"port": str(app.data / "ttyUSB0")}]
    app.options["page_password"] = "tide and ebb"
    with app.running():
        assert app.page("/api/status") == 200, "under any name"
        assert app.run("--health").returncode == 0
        until(lambda: app.page("/readyz") == 200)
    config = tomllib.loads((app.data / "config.toml").read_text())
    assert config["serial"] == [{"port": str(app.data / "ttyUSB0"), "baud": 115_200}]
    assert config["home_assistant"] == {"enable": True}
    for secret in ("upstream.password", "page.password", "config.toml", "arguments.json"):
        assert (app.data / secret).stat().st_mode & 0o077 == 0


def self_status(app: App) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", app.page_port, timeout=200)
    connection.request("GET", "/api/status")
    return connection.getresponse().read().decode()


def test_a_backup_while_it_runs_brings_the_state_back(app: App) -> None:
    with app.running():
        ended = app.run("--backup")
        assert ended.returncode == 0, ended.stderr
        assert (app.data / "tidegate.backup").exists()
    # What Home Assistant brings back: the folder of data without what is left out of the backup.
    (left_out,) = read("config.yaml")["backup_exclude"]
    state = app.data / "state"
    assert state.match(left_out)
    state.rename(app.data.parent / "lost")
    with app.running():
        assert state.exists()
    assert "restoring" in (app.data.parent / "log").read_text()
    assert not (app.data / "tidegate.backup").exists(), "it is restored once"
    (app.data / "tidegate.backup").touch()
    assert app.run("--after-backup").returncode == 0
    assert not (app.data / "tidegate.backup").exists()


def test_a_file_of_the_operators_own_is_taken_in_place_of_the_options(app: App) -> None:
    port = free_udp_port()
    (app.config / "tidegate.toml").write_text(
        f'[gateway]\nname = "mine"\n[[udp]]\nlisten = "127.0.0.1:{port}"\n'
    )
    with app.running():
        assert '"mine"' in self_status(app)
    assert not (app.data / "config.toml").exists()


def test_a_mistake_in_it_is_on_the_page(app: App) -> None:
    (app.config / "tidegate.toml").write_text('[gateway]\nnam = "a"\n')
    app.write_options()
    log = app.data.parent / "log"
    with log.open("w") as output, app.started(output) as process:
        try:
            until(lambda: app.page("/api/faults") == 200)
        finally:
            process.terminate()
    assert "did you mean gateway.name" in log.read_text()


def test_a_file_that_is_no_toml_is_named(app: App) -> None:
    (app.config / "tidegate.toml").write_text("[gateway\n")
    ended = app.run()
    assert ended.returncode == 78
    assert "tidegate.toml" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_a_broker_it_says_what_to_install(tmp_path: Path) -> None:
    with supervisor(None, free_port(socket.SOCK_STREAM)) as url:
        ended = App(tmp_path, url, 0).run()
    assert ended.returncode == 69
    assert "install the Mosquitto broker app" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_of_the_options_needs_no_supervisor(tmp_path: Path, broker: Mosquitto) -> None:
    app = App(tmp_path, "http://127.0.0.1:9", 0)
    app.options["mqtt_url"] = "mqtt://127.0.0.1:1"
    app.options["mqtt_username"] = "sensors"
    app.write_options()
    with (tmp_path / "log").open("w") as output, app.started(output) as process:
        until((app.data / "arguments.json").exists)
        process.terminate()
    arguments = json.loads((app.data / "arguments.json").read_text())
    assert "upstream.url=mqtt://127.0.0.1:1" in arguments
    assert "upstream.username=sensors" in arguments


def test_what_is_no_option_file_is_named(app: App) -> None:
    app.run("--after-backup")
    (app.data / "options.json").write_text("{")
    ended = subprocess.run(
        [sys.executable, RUN], env=app._environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 78
    assert "options.json" in ended.stderr
