#!/usr/bin/env python3
# block: held, tests/examples/test_home_assistant_app.py
"""Runs Tidegate as an app of Home Assistant: its options become a configuration file.

    run.py                  the gateway, in the place of this process
    run.py --backup         before a backup: what the gateway has, at one moment, in one file
    run.py --after-backup   and after it
    run.py --health         for the engine: exit code 0 if a restart would not help

The broker is that of Home Assistant, which the Supervisor names, unless the options name another.
A file `tidegate.toml` in the folder of this app (`/addon_configs/..._tidegate`) is taken in place
of the options; then the Supervisor's broker is used if the file names none.

Exit codes: those of `tidegate`; 78 if the options are wrong, 69 without a broker.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("APP_DATA", "/data"))
OWN_FILE = Path(os.environ.get("APP_CONFIG", "/config")) / "tidegate.toml"
SUPERVISOR = os.environ.get("APP_SUPERVISOR", "http://supervisor")
STATE, CONFIG, ARGUMENTS = DATA / "state", DATA / "config.toml", DATA / "arguments.json"
BACKUP = DATA / "tidegate.backup"
UPSTREAM_PASSWORD, PAGE_PASSWORD = DATA / "upstream.password", DATA / "page.password"
TIMEOUT_S = 10.0
BAUD = 115_200
GROUP = "225.1.1.1"
CONFIG_ERROR, UNAVAILABLE = 78, 69


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            run()
        case ["--backup"]:
            tidegate("backup", *given_before(), "--force", str(BACKUP))
        case ["--after-backup"]:
            BACKUP.unlink(missing_ok=True)
        case ["--health"]:
            tidegate("health", *given_before())
        case _:
            sys.exit(__doc__)


def run() -> None:
    try:
        options = json.loads((DATA / "options.json").read_text())
    except (OSError, ValueError) as error:
        end(CONFIG_ERROR, f"{DATA / 'options.json'}: {error}")
    try:
        given = arguments(options)
    except (OSError, tomllib.TOMLDecodeError) as error:
        end(CONFIG_ERROR, f"{OWN_FILE}: {error}")
    write(ARGUMENTS, json.dumps(given))
    if BACKUP.exists() and not STATE.exists():
        print("restoring the state from the backup", flush=True)
        tidegate("restore", "--without-config", *given, str(BACKUP))
        BACKUP.unlink()
    os.execvp("tidegate", ["tidegate", "run", *given])


def arguments(options: dict[str, Any]) -> list[str]:
    """For `tidegate`: the file, and what this app decides in it. Raises OSError or TOMLDecodeError
    for the operator's own file.
    """
    settings = {"gateway.state_dir": str(STATE)} | page()
    if OWN_FILE.exists():
        print(f"{OWN_FILE} is taken in place of the options", flush=True)
        names_broker = "url" in tomllib.loads(OWN_FILE.read_text()).get("upstream", {})
        file = OWN_FILE
    else:
        write(CONFIG, toml(of_options(options)))
        names_broker, file = False, CONFIG
        if options.get("page_password"):
            write(PAGE_PASSWORD, options["page_password"] + "\n")
            settings["admin.password_file"] = str(PAGE_PASSWORD)
    if not names_broker:
        settings |= broker(options)
    sets = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    return ["--config", str(file), *sets]


def given_before() -> list[str]:
    """What the gateway was started with."""
    return [str(each) for each in json.loads(ARGUMENTS.read_text())]


def of_options(options: dict[str, Any]) -> dict[str, Any]:
    port = options["udp_port"]
    udp: dict[str, Any] = {"listen": f"0.0.0.0:{port}"}
    if options["search"]:
        udp["multicast"] = f"{GROUP}:{port}"
    serial = [
        {"port": each["port"], "baud": each.get("baud") or BAUD} for each in options["serial"]
    ]
    return {
        "gateway": {"name": options["name"]},
        "udp": [udp],
        "serial": serial,
        "log": {"level": options["log_level"]},
        "home_assistant": {"enable": True},
    }


def broker(options: dict[str, Any]) -> dict[str, str]:
    url, username = options.get("mqtt_url"), options.get("mqtt_username")
    password = options.get("mqtt_password")
    if not url:
        found = supervisor("/services/mqtt")
        if not found:
            end(UNAVAILABLE, "no broker: install the Mosquitto broker app, or name one in mqtt_url")
        scheme = "mqtts" if found.get("ssl") else "mqtt"
        url = f"{scheme}://{reachable(found['host'])}:{found['port']}"
        username, password = found.get("username"), found.get("password")
    upstream = {"upstream.url": url}
    if username:
        upstream["upstream.username"] = username
        write(UPSTREAM_PASSWORD, f"{password or ''}\n")
        upstream["upstream.password_file"] = str(UPSTREAM_PASSWORD)
    return upstream


def reachable(host: str) -> str:
    """In the host's network the names of other apps may be unknown; their ports are its own."""
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return "127.0.0.1"
    return host


def page() -> dict[str, str]:
    """Home Assistant asks who it is before it passes anything on, under whatever name it has."""
    about = supervisor("/addons/self/info") or {}
    address, port = about.get("ip_address"), about.get("ingress_port")
    if not address or not port:
        return {}
    # Who reaches this address is Home Assistant, which has asked who it is.
    return {
        "admin.listen": f"{address}:{port}",
        "admin.hosts": "*",
        "admin.anonymous": "viewer",
    }


def supervisor(path: str) -> dict[str, Any] | None:
    """What the Supervisor answers; None if it has nothing."""
    request = urllib.request.Request(
        SUPERVISOR + path,
        headers={"Authorization": f"Bearer {os.environ.get('SUPERVISOR_TOKEN', '')}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            found = json.load(answer).get("data")
    except (OSError, ValueError) as error:
        print(f"the Supervisor does not answer to {path}: {error}", flush=True)
        return None
    return found if isinstance(found, dict) and found else None


def toml(tables: dict[str, dict[str, Any] | list[dict[str, Any]]]) -> str:
    """JSON's texts, numbers and truths are TOML's as well, but for escapes of two parts."""
    lines: list[str] = []
    for name, value in tables.items():
        for each in value if isinstance(value, list) else [value]:
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in each.items()]
    return "\n".join([*lines, ""])


def write(path: Path, text: str) -> None:
    """For this user alone, because it may hold passwords; whole or not at all."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with open(beside, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    beside.replace(path)


def tidegate(*arguments: str) -> None:
    ended = subprocess.run(["tidegate", *arguments], check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def end(code: int, message: str) -> None:
    print(message, file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
