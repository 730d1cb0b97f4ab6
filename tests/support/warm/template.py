"""`python -m tests.support.warm.template SOCKET KIND`: forks a program for each order that comes.

An order is a datagram with the three streams beside it; the answer is the number of the process.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

ELSE = "else"
RUN = "run"  # it takes compiled modules where there are some; all else runs the sources
UNBUFFERED = "PYTHONUNBUFFERED"
ORDER_BYTES_MAX = 1 << 17
STREAMS = 3
# All that is below these; what a verb imports as it goes is below one of them, or in BESIDE.
PACKAGES = {RUN: ("gateway.app", "gateway.admin", "gateway.cli.run"), ELSE: ("gateway",)}
BESIDE = ("asyncio", "http.client", "sqlite3", "ssl", "urllib.request", "uvloop")


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    kind = sys.argv[2]
    if kind == RUN:
        _choose_form()
    for name in (*BESIDE, *(each for top in PACKAGES[kind] for each in _below(top))):
        with suppress(ImportError):  # what is for an extra that is not here
            import_module(name)
    gc.collect()
    gc.freeze()
    orders.send(b"ready")
    module = _obey(orders)
    if module:
        _exit(_run(module))


def _run(module: str) -> int:
    """Its exit code, as the interpreter finds it."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        sys.stderr.write(f"{exit_.code}\n")
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _exit(code: int) -> None:
    """All that an interpreter does as it ends, but to clear modules: they are the template's too,
    and each that is written to is copied.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            with suppress(OSError):
                stream.flush()
    os._exit(code)


def _below(top: str) -> Iterator[str]:
    yield top
    for found in walk_packages(getattr(import_module(top), "__path__", ()), f"{top}."):
        if "compiled_modules" not in found.name and not found.name.endswith("__main__"):
            yield found.name


def _choose_form() -> None:
    """`run` asks again, when what it would choose from is imported."""
    from gateway.host import compiled

    form = compiled.use(os.environ)
    compiled.use = lambda *_given: form


def _obey(orders: socket.socket) -> str:
    """Returns in each process that was ordered, with the module that it runs; and at the end."""
    while True:
        text, streams, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, STREAMS)
        if not text:
            return ""
        between = os.fork()
        if between:
            for each in streams:
                os.close(each)
            os.waitpid(between, 0)
            continue
        child = os.fork()
        if child:
            # The test's process is the nearest that takes orphans, and so the parent from here on.
            orders.send(str(child).encode())
            os._exit(0)
        orders.close()
        return _become(json.loads(text), streams)


def _become(order: dict[str, object], streams: Sequence[int]) -> str:
    folder, environment, arguments = order["folder"], order["environment"], order["arguments"]
    module, has_session = order["module"], order["has_session"]
    assert isinstance(folder, str)
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    assert isinstance(module, str)
    if has_session:
        os.setsid()
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in streams:
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(STREAMS))
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.path[0] = folder
    sys.argv = ["-m", *arguments]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    return module


def _stream(number: int) -> io.TextIOWrapper:
    """As the interpreter makes it: to be read, to be written, or written and seen at each line; in
    the encoding of its first one.
    """
    first = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[number]
    assert first is not None
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffer = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        first.encoding,
        first.errors,
        line_buffering=number == 2 or raw.isatty(),
        write_through=bool(os.environ.get(UNBUFFERED)) and number != 0,
    )


if __name__ == "__main__":
    main()
