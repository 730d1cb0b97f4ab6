"""What is in a report: each part a file, made in a time of its own, at most PART_BYTES_MAX long.

Whatever cannot be had is said in its file in place of it: a gateway that does not run, a
configuration that is wrong, a disk that hangs, a right that is missing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.cli.asking import NoAnswerError, Place, fetch, reason_of
from gateway.cli.report.redaction import Redaction, secret_files
from gateway.config.credential import stored_at
from gateway.config.mounts import existing, mount_of
from gateway.config.regular_file import read_regular
from gateway.config.settings import MIB, Settings
from gateway.host.side_thread import OverdueError, within
from gateway.host.version import version

PART_BYTES_MAX = 1 << 20
SECRET_BYTES_MAX = 64 << 10
LOG_LINES = 500
FILE_S_MAX = 10.0
VERB_S_MAX = 30.0
DOCTOR_S_MAX = 120.0
COMMAND_S_MAX = 10.0
PAGE_S_MAX = 5.0
BOARDS = (Path("/proc/device-tree/model"), Path("/sys/class/dmi/id/product_name"))
UNIT = "tidegate"
UNIT_PROPERTIES = "ActiveState,SubState,Result,NRestarts,ExecMainStatus,ActiveEnterTimestamp"


@dataclass(frozen=True, slots=True)
class Part:
    """`cut_from_start`: of what is too long the end is kept."""

    name: str
    what: str
    made: Callable[[], str]
    seconds: float = FILE_S_MAX
    cut_from_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`settings` None: the configuration is wrong, or could not be read."""

    config: Path | None
    overrides: tuple[str, ...]
    environment: Mapping[str, str]
    settings: Settings | None
    place: Place
    redaction: Redaction


def parts_of(subject: Subject) -> Iterator[Part]:
    """The configuration first: what it hides is hidden in all others."""
    yield Part(
        "configuration.txt", "the configuration without secrets", lambda: _configuration(subject)
    )
    yield Part("versions.txt", "of Tidegate, Python and what it needs", _versions)
    yield Part("system.txt", "kernel, board, memory, disk, time", lambda: _system(subject))
    for name, verb, more, seconds, what in (
        ("check.txt", "check", (), VERB_S_MAX, "what check says"),
        ("doctor.txt", "doctor", ("--syncs", "20"), DOCTOR_S_MAX, "what doctor finds"),
        ("status.txt", "status", (), VERB_S_MAX, "what status says"),
        ("buffer.txt", "buffer", (), VERB_S_MAX, "how much waits for the broker"),
    ):
        yield Part(name, what, _said_by(subject, verb, more, seconds), seconds + COMMAND_S_MAX)
    for name, path, what in (
        ("status.json", "/api/status", "the same, with every number"),
        ("health.json", "/healthz", "what /healthz says"),
        ("metrics.txt", "/metrics", "all metrics"),
    ):
        yield Part(name, what, _page(subject, path), PAGE_S_MAX * 2)
    yield Part(
        "log.txt",
        f"the last lines of the log, {LOG_LINES} at most, without payloads",
        lambda: _log(subject),
        PAGE_S_MAX * 2 + COMMAND_S_MAX,
        cut_from_start=True,
    )
    yield Part("service.txt", "how systemd sees the service", _service, COMMAND_S_MAX * 2)


def made(part: Part, redaction: Redaction) -> bytes:
    """Its text, clean and not too long; never raises."""
    try:
        text = within(part.seconds, part.made, f"report {part.name}")
    except OverdueError:
        text = f"(no answer within {part.seconds:.0f} s)\n"
    except Exception as error:  # whatever fails is for the one who reads the report
        text = f"(not available: {type(error).__name__}: {error})\n"
    data = redaction.clean(text).encode(errors="backslashreplace")
    if len(data) <= PART_BYTES_MAX:
        return data
    note = f"(cut: {len(data)} bytes)\n".encode()
    if part.cut_from_start:
        return note + data[-PART_BYTES_MAX:]
    return data[:PART_BYTES_MAX] + b"\n" + note


# The configuration


def _configuration(subject: Subject) -> str:
    redaction = subject.redaction
    file = "no file, so defaults" if subject.config is None else subject.config.absolute()
    lines = [f"# {file}"]
    lines += [f"# {each}" for each in redaction.assigned(subject.environment, subject.overrides)]
    _hide_files(subject)
    if subject.config is None:
        return "\n".join(lines) + "\n"
    data = read_regular(subject.config, PART_BYTES_MAX)
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return "\n".join([*lines, redaction.configuration(text)])


def _hide_files(subject: Subject) -> None:
    """What is in files with secrets, should it be anywhere else."""
    if subject.settings is None:
        return
    for key in secret_files():
        table, name = key.split(".")
        path = getattr(getattr(subject.settings, table), name)
        if path is None:
            continue
        with contextlib.suppress(OSError):
            data = read_regular(stored_at(path), SECRET_BYTES_MAX)
            if b"-----BEGIN" not in data:
                subject.redaction.hide(data.decode(errors="replace").strip())


# This machine


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.metadata import version as version_of

    lines = [f"tidegate {version()}", f"python {sys.version}", f"started as {sys.argv[0]}"]
    lines.append(f"modules {_form()}")
    with contextlib.suppress(PackageNotFoundError):
        for needed in requires("tidegate") or ():
            name = re.split(r"[^\w.-]", needed)[0]
            with contextlib.suppress(PackageNotFoundError):
                lines.append(f"{name} {version_of(name)}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _form() -> str:
    from gateway.host.compiled import found

    return found(os.environ)[0].value


def _system(subject: Subject) -> str:
    facts = [
        ("time", datetime.now(UTC).astimezone().isoformat(timespec="seconds")),
        ("kernel", " ".join(platform.uname()[each] for each in (0, 2, 3, 4))),
        ("system", _os_name()),
        ("board", _first(BOARDS[0]) or _first(BOARDS[1])),
        ("libc", " ".join(platform.libc_ver())),
        ("processors", str(os.cpu_count())),
        ("load", _first(Path("/proc/loadavg"))),
        ("up", f"{_first(Path('/proc/uptime')).split(' ')[0]} s"),
        ("user", "root" if os.geteuid() == 0 else "not root"),
        ("time sync", _time_sync()),
        *_memory(),
        *_disk(subject),
    ]
    return "".join(f"{name:<14}{text or 'not known'}\n" for name, text in facts)


def _first(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0\n ").partition("\n")[0]
    except OSError:
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _time_sync() -> str:
    if Path("/run/systemd/timesync/synchronized").exists():
        return "systemd-timesyncd is synchronized"
    return " ".join(_command(["timedatectl", "show", "-p", "NTPSynchronized"]).split())


def _memory() -> Iterator[tuple[str, str]]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, amount = line.partition(":")
        if name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree"):
            yield name, amount.strip()


def _disk(subject: Subject) -> Iterator[tuple[str, str]]:
    """Of the state folder, or of the nearest folder above that is there."""
    if subject.settings is None:
        return
    folder = subject.settings.gateway.state_dir
    there = existing(folder)
    usage = shutil.disk_usage(there)
    yield "disk", f"{there}: {usage.free // MIB} of {usage.total // MIB} MiB free"
    mount = mount_of(there)
    if mount is not None:
        yield "mounted", f"{mount.point}, {mount.file_system}, {','.join(mount.options)}"


# The gateway


def _said_by(subject: Subject, verb: str, more: Sequence[str], seconds: float) -> Callable[[], str]:
    def said() -> str:
        command = [sys.executable, "-m", "gateway", verb, *more]
        if verb == "check":
            if subject.config is None:
                return "(there is no configuration file)\n"
            command.append(str(subject.config))
        else:
            command += [] if subject.config is None else ["--config", str(subject.config)]
            command += [f"--set={each}" for each in subject.overrides]
        return _command(command, seconds)

    return said


def _page(subject: Subject, path: str) -> Callable[[], str]:
    return lambda: _got(subject.place, path)


def _got(place: Place, path: str) -> str:
    """Whatever the page answers, also with another code than 200."""
    try:
        _, body = fetch(place, path, PAGE_S_MAX)
    except NoAnswerError as error:
        return f"({error})\n"
    return body.decode(errors="replace")


def _log(subject: Subject) -> str:
    import json

    try:
        answer = json.loads(_got(subject.place, "/api/log"))
        lines = [str(line["text"]) for line in answer["lines"]]
    except (ValueError, KeyError, TypeError):
        command = ["journalctl", "-u", UNIT, "-n", str(LOG_LINES), "--no-pager", "-o", "short-iso"]
        return _command(command)
    return "".join(f"{line}\n" for line in lines[-LOG_LINES:])


def _service() -> str:
    return _command(["systemctl", "show", UNIT, f"--property={UNIT_PROPERTIES}"])


def _command(command: Sequence[str], seconds: float = COMMAND_S_MAX) -> str:
    """What it says on both outputs, as far as it came."""
    from tempfile import TemporaryFile

    with TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            return f"({command[0]} does not run here: {reason_of(error)})\n"
        try:
            end = f"(exit code {process.wait(seconds)})\n"
        except subprocess.TimeoutExpired:
            end = f"(no end within {seconds:.0f} s)\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        said = output.read(PART_BYTES_MAX * 2).decode(errors="replace")
    return f"{said}{end}"
