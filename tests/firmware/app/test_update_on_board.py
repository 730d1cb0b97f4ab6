"""Applications over the air, on real MicroPython: image, manifest, OTA server, gateway, broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firmware import image
from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.app.conftest import KEY, NodeMaker, woken
from tests.firmware.app.listener import Listener
from tests.firmware.app.power_cuts import IMPORTS_ONLY, Lives
from tests.support.boards import require_board

DIES = b"def run(files, slots, is_safe):\n    raise ValueError('the new one is broken')\n"
MUTE = b"""
def run(files, slots, is_safe):
    slots.lived(is_safe)
    import machine
    machine.deepsleep(1000)
"""
SETTLED_S = 5.0


class OtaServerProcess(LoggedProcess):
    def __init__(self, folder: Path, broker: Mosquitto, name: str) -> None:
        super().__init__(folder / "ota_server.log")
        self._node = f"sensors/{name}"
        self._command = [sys.executable, "-m", "firmware.ota_server"]
        self._command += ["--broker", f"127.0.0.1:{broker.port}", "--nodes", self._node]

    def serve(self, update: Path | None) -> None:
        self.kill()
        offered = ["--update", str(update), "--node", self._node] if update else []
        self.launch(self._command + offered)
        self.wait_for_log("is offered" if update else "connected to broker")

    def start(self) -> None:
        self.serve(None)

    def serve_on_request(self, update: Path) -> None:
        self.kill()
        self.launch([*self._command, "--update", str(update), "--on-request"])
        self.wait_for_log("connected to broker")

    def withdraw(self) -> str:
        self.kill()
        ended = subprocess.run([*self._command, "--withdraw"], capture_output=True, text=True)
        assert ended.returncode == 0
        return ended.stderr


@pytest.fixture
def ota_server(tmp_path: Path, broker: Mosquitto, name: str) -> Iterator[OtaServerProcess]:
    with OtaServerProcess(tmp_path, broker, name) as process:
        yield process


def published(folder: Path, number: int, content: bytes, key: bytes = KEY) -> Path:
    image.write(
        folder,
        {
            f"node-{number}.img": content,
            f"node-{number}.manifest": image.manifest(number, content, key),
        },
    )
    return folder / f"node-{number}.img"


def until(node: WasiBoard, is_so: Callable[[], bool], wakes: int = 8) -> None:
    for _ in range(wakes):
        node.run("import main")
        if is_so():
            return
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:  # what the last one said may be on its way
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail(f"not after {wakes} wakes: {node.output}")


@pytest.fixture
def node(new_node: NodeMaker, gateway: GatewayProcess) -> WasiBoard:
    return new_node(gateway.port, listen_every=1)


def test_a_new_application_is_fetched_tried_and_stays_when_its_first_reading_has_arrived(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    woken(node)
    ota_server.serve(published(tmp_path, 2, image.image(image.application(2))))
    until(node, lambda: listener.state().get("app") == 2)
    until(node, lambda: listener.state()["mode"] == "normal")
    state = listener.state()
    assert (state["slot"], state["update"]) == ("b", "")
    assert not (node.flash / "update.img").exists()
    ota_server.serve(published(tmp_path, 3, image.image(image.application(3))))
    until(node, lambda: listener.state().get("app") == 3)
    assert listener.state()["slot"] == "a"


@pytest.mark.parametrize("broken", [DIES, MUTE], ids=["dies", "is mute"])
def test_one_that_dies_or_never_publishes_is_left_for_the_former_one_and_not_tried_again(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path, broken: bytes
) -> None:
    woken(node)
    ota_server.serve(published(tmp_path, 2, image.image({"app/start.py": broken})))
    until(node, lambda: (node.flash / "b/app/start.py").exists())
    until(node, lambda: "in a" in node.output, wakes=16)
    until(node, lambda: "rolled back" in listener.state()["update"])
    before = (node.flash / "boot").read_bytes()
    for _ in range(3):
        assert "in a" in woken(node)
    assert (node.flash / "boot").read_bytes() == before


def test_a_node_in_safe_mode_takes_an_update(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    woken(node)
    ota_server.serve(published(tmp_path, 2, image.image(image.application(2))))
    with Lives(node.flash) as lives:
        imported = lives.run_program(program=IMPORTS_ONLY).fuel
        for _ in range(3):
            assert lives.run_program(fuel=imported).how == "power_cut"
        safe = lives.run_program()
        assert (safe.how, "safe mode" in safe.output) == ("reset", True)
        assert "2 in b\n" in lives.run_program().output
    listener.wait_for(lambda: listener.state().get("app") == 2)


def test_an_application_with_another_key_is_refused(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    ota_server.serve(published(tmp_path, 2, image.image({"app/start.py": DIES}), key=b"x" * 16))
    until(node, lambda: listener.state().get("update") == "refused 2: wrong key")
    woken(node)
    assert listener.state()["update"] == "refused 2: wrong key"
    assert not (node.flash / "update.img").exists()


def test_the_time_comes_from_the_ota_server(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener
) -> None:
    woken(node)
    woken(node)
    listener.wait_for(lambda: 2 in listener.readings())
    assert listener.readings()[1].time_s == 0
    assert listener.readings()[2].time_s > 1_700_000_000


def test_the_command_line_makes_a_node_and_an_update(tmp_path: Path) -> None:
    require_board()
    key = tmp_path / "key"
    key.write_text(KEY.hex() + "\n")
    command = [sys.executable, "-m", "firmware.image", "--number", "7", "--into", str(tmp_path)]
    made = subprocess.run([*command, "--key-file", str(key)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "node" / "main.py").read_bytes() == image.MAIN
    content = (tmp_path / "node-7.img").read_bytes()
    assert (tmp_path / "node-7.manifest").read_bytes() == image.manifest(7, content, KEY)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--number", "0"], "--number: 0 is none from 1 to 4294967295"),
        (["--number", "1.5"], "--number: 1.5 is none from 1 to 4294967295"),
        (["--key-file", "absent"], "absent: No such file or directory"),
        (["--key-file", "short"], "a key of 2 bytes, at least 16"),
        (["--key-file", "wrong"], "the key is to be hexadecimal"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    require_board()
    (tmp_path / "short").write_text("0011")
    (tmp_path / "wrong").write_text("not hex")
    arguments = [str(tmp_path / each) if each.isalpha() else each for each in arguments]
    command = [sys.executable, "-m", "firmware.image", "--into", str(tmp_path), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode != 0
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_ota_server_says_what_is_wrong_with_an_image(tmp_path: Path) -> None:
    path = published(tmp_path, 2, b"image")
    path.write_bytes(b"other")
    command = [sys.executable, "-m", "firmware.ota_server", "--update"]
    for given, told in ((path, "is of another image"), (tmp_path / "absent.img", "make it with")):
        path.write_bytes(b"longer than before")
        ended = subprocess.run([*command, str(given)], capture_output=True, text=True)
        assert ended.returncode == 65
        assert told in ended.stderr
        assert "Traceback" not in ended.stderr


def test_the_ota_server_says_which_file_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    (tmp_path / "octets").write_bytes(b"\xff\xfe")
    for option, name in (
        ("--password-file", "absent"),
        ("--password-file", "octets"),
        ("--ca-file", "ca"),
    ):
        path = tmp_path / name
        command = [sys.executable, "-m", "firmware.ota_server", "--broker", "127.0.0.1:9"]
        ended = subprocess.run([*command, option, str(path)], capture_output=True, text=True)
        assert ended.returncode == 65
        assert str(path) in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--broker", "somewhere:99999"], 2, "port 99999 is none from 1 to 65535"),
        (["--nodes", "sensors/#"], 2, "sensors/# is no filter of nodes; it is like sensors/+"),
        (["--nodes", "sensors+/x"], 2, "is no filter of nodes"),
        (["--node", "sensors/+"], 2, "sensors/+ is no topic of one node"),
        (["--broker", "127.0.0.1:9", "--withdraw"], 69, "nothing was withdrawn: broker 127.0.0.1"),
    ],
)
def test_the_ota_server_says_which_argument_is_wrong(
    arguments: list[str], code: int, told: str
) -> None:
    command = [sys.executable, "-m", "firmware.ota_server", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, told in ended.stderr) == (code, True), ended.stderr
    assert "Traceback" not in ended.stderr


def test_manifests_can_be_withdrawn(
    node: WasiBoard,
    ota_server: OtaServerProcess,
    broker: Mosquitto,
    listener: Listener,
    tmp_path: Path,
) -> None:
    ota_server.serve(published(tmp_path, 2, image.image(image.application(2))))
    ota_server.kill()
    command = [sys.executable, "-m", "firmware.ota_server", "--broker", f"127.0.0.1:{broker.port}"]
    command += ["--nodes", listener.topic, "--withdraw"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, "is withdrawn" in ended.stderr) == (0, True)
    woken(node)
    assert "in a" in woken(node)
    listener.wait_for(lambda: bool(listener.states()))
    assert listener.state()["update"] == ""


def told(installed: int, latest: int) -> dict[str, object]:
    """That nothing is in progress."""
    return {
        "installed_version": str(installed),
        "latest_version": str(latest),
        "in_progress": False,
        "update_percentage": None,
    }


def documents(listener: Listener) -> list[dict[str, object]]:
    return [json.loads(payload or b"{}") for payload in listener.on(f"{listener.topic}/update")]


def test_on_request_an_update_comes_when_it_is_asked_for_and_its_progress_is_told(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    ota_server.serve_on_request(published(tmp_path, 2, image.image(image.application(2))))
    woken(node)
    listener.wait_for(lambda: documents(listener) == [told(1, 2)])
    for _ in range(2):
        woken(node)
    assert listener.on(f"{listener.topic}/set/update") == []
    listener.publish("install", b"install", retain=False)
    listener.wait_for(lambda: documents(listener)[-1]["in_progress"] is True)
    assert listener.state()["app"] == 1
    until(node, lambda: listener.state().get("app") == 2)
    listener.wait_for(lambda: documents(listener)[-1] == told(2, 2))
    # Once a second at most: of a board that is quick there may be none between.
    seen = [each["update_percentage"] for each in documents(listener)]
    progress = [each for each in seen if isinstance(each, int)]
    assert progress == sorted(progress)
    listener.wait_for(lambda: listener.on(f"{listener.topic}/set/update")[-1:] == [b""])
    assert "is withdrawn" in ota_server.withdraw()
    listener.wait_for(lambda: documents(listener)[-1] == {})


def test_after_a_restart_of_the_ota_server_what_was_asked_for_goes_on(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    update = published(tmp_path, 2, image.image(image.application(2)))
    ota_server.serve_on_request(update)
    woken(node)
    listener.wait_for(lambda: documents(listener) == [told(1, 2)])
    listener.publish("install", b"install", retain=False)
    listener.wait_for(lambda: len(listener.on(f"{listener.topic}/set/update")) == 1)
    ota_server.serve_on_request(update)
    until(node, lambda: listener.state().get("app") == 2)
    listener.wait_for(lambda: documents(listener)[-1] == told(2, 2))


def test_a_refusal_ends_the_progress_and_the_node_says_why(
    node: WasiBoard, ota_server: OtaServerProcess, listener: Listener, tmp_path: Path
) -> None:
    wrong = published(tmp_path, 2, image.image({"app/start.py": DIES}), key=b"x" * 16)
    ota_server.serve_on_request(wrong)
    woken(node)
    listener.wait_for(lambda: documents(listener) == [told(1, 2)])
    listener.publish("install", b"install", retain=False)
    listener.wait_for(lambda: documents(listener)[-1]["in_progress"] is True)
    until(node, lambda: listener.state()["update"] == "refused 2: wrong key")
    listener.wait_for(lambda: documents(listener)[-1] == told(1, 2))
