"""What the application needs of a board: the only file that knows `machine`, `network`, `esp32`.

What a port does not have is done without: RTC memory by a file, deep sleep by light sleep, WLAN by
nothing (a board with Ethernet, or a serial line). A board that sleeps lightly lives on, so `keep`
needs no flash there.

    {"ssid": "...", "password": "..."}         in /secrets.json
"""

import sys
from time import sleep_ms, time  # type: ignore[attr-defined]

import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..loader.files import Files
    from .settings import Settings
    from .watch import Watch

KEPT_PATH = "/kept"
_JOIN_PART_MS = 100
_LINE_OCTETS = 460  # the longest frame, with what protects it
_RP2_WATCHDOG_MS_MAX = 8_300
_MICROVOLTS_MAX = 3_300_000  # of RP2's converter


class Board:
    def __init__(self, files: "Files", settings: "Settings", secrets: "dict[str, Any]") -> None:
        self._files = files
        self._settings = settings
        self._secrets = secrets
        self._watchdog: Any = None
        self._wlan: Any = None
        self._rtc: Any = machine.RTC()
        # Where the deep sleep is a light one and a reset, the light one alone is better.
        self._sleeps_deeply = hasattr(machine, "DEEPSLEEP_RESET") and sys.platform != "rp2"
        self._kept = b""

    # Time and power

    def seconds(self) -> int:
        """A clock that goes on in deep sleep, and begins anywhere."""
        return int(time())

    def sleep(self, ms: int) -> None:
        """Returns where the board sleeps lightly only."""
        if self._sleeps_deeply:
            machine.deepsleep(ms)
        self._nap(ms)

    def restart(self) -> None:
        machine.reset()

    def feed(self) -> None:
        if self._watchdog is None and self._settings.watchdog_s:
            self._watchdog = machine.WDT(timeout=self._watchdog_ms())
        if self._watchdog is not None:
            self._watchdog.feed()

    def _watchdog_ms(self) -> int:
        ms = self._settings.watchdog_s * 1000
        return min(ms, _RP2_WATCHDOG_MS_MAX) if sys.platform == "rp2" else ms

    def _nap(self, ms: int) -> None:
        """In parts, because the watchdog does not sleep."""
        part_ms = self._watchdog_ms() // 2 or ms
        while ms > 0:
            machine.lightsleep(min(ms, part_ms))
            ms -= part_ms
            if self._watchdog is not None:
                self._watchdog.feed()

    # What survives a sleep

    def memory(self) -> bytes:
        if not self._sleeps_deeply:
            return self._kept
        if hasattr(self._rtc, "memory"):
            return bytes(self._rtc.memory())
        return self._files.load(KEPT_PATH) or b""

    def keep(self, kept: bytes) -> None:
        if not self._sleeps_deeply:
            self._kept = kept
        elif hasattr(self._rtc, "memory"):
            self._rtc.memory(kept)
        else:
            self._files.forget(KEPT_PATH)
            try:
                if kept:
                    self._files.save(KEPT_PATH, kept)
            except OSError:
                pass  # then the next wake begins again

    # The network

    def join(self, watch: "Watch") -> None:
        """Raises OSError when the step's time is up before the network is."""
        if "ssid" not in self._secrets:
            return
        import network  # not every board has it

        if self._wlan is None:
            self._wlan = network.WLAN(network.STA_IF)
        wlan = self._wlan
        wlan.active(True)
        wlan.connect(self._secrets["ssid"], self._secrets.get("password"))
        while not wlan.isconnected():
            if not watch.left():
                raise OSError(f"no WLAN, status {wlan.status()}")
            sleep_ms(_JOIN_PART_MS)

    def leave(self) -> None:
        """A radio that is left on in deep sleep takes fifty times what the sleep takes."""
        if self._wlan is not None:
            try:
                self._wlan.disconnect()
            except OSError:
                pass  # it was not connected
            self._wlan.active(False)

    def transport(self) -> "Any":
        uart = self._settings.uart
        if uart is not None:
            from ..mqttsn.uart import Uart

            return Uart(machine.UART(uart["number"], uart.get("baud", 115_200)), _LINE_OCTETS)
        from ..mqttsn import Udp

        udp = Udp(*self._settings.gateways)
        udp.local_port = self._settings.local_port
        return udp

    # Sensors

    def chip_temperature(self) -> int:
        """Tenths of a degree."""
        if sys.platform == "rp2":
            volts: float = machine.ADC(4).read_u16() * 3.3 / 65535  # RP2040 data sheet, 4.9.5
            return int(270.5 - (volts - 0.706) / 0.0001721)
        esp32 = __import__("esp32")  # whose newer chips have the one, and the first the other
        if hasattr(esp32, "mcu_temperature"):
            return int(esp32.mcu_temperature()) * 10
        return int((esp32.raw_temperature() - 32) / 0.18)

    def adc(self, pin: int) -> "Callable[[], int]":
        """A function that measures microvolts."""
        adc: Any = machine.ADC(machine.Pin(pin))
        if hasattr(adc, "read_uv"):
            if hasattr(machine.ADC, "ATTN_11DB"):
                adc.atten(machine.ADC.ATTN_11DB)
            read_uv: Callable[[], int] = adc.read_uv
            return read_uv
        read_u16: Callable[[], int] = adc.read_u16
        return lambda: read_u16() * _MICROVOLTS_MAX // 65535

    def i2c(self, scl: int, sda: int) -> "Any":
        return machine.SoftI2C(scl=machine.Pin(scl), sda=machine.Pin(sda))

    def one_wire(self, pin: int) -> "Any":
        from onewire import OneWire

        return OneWire(machine.Pin(pin))
