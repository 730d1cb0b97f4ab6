"""What those who wait see: lines for good on stdout, and how far it is on stderr."""

from gateway.cli.output import print_line
from gateway.cli.progress import Progress

BAR_LETTERS = 24


class TerminalReport:
    def __init__(self) -> None:
        self._what = ""
        self._total = 1
        self._progress: Progress | None = None

    def print_line(self, text: str) -> None:
        self._end()
        print_line(text)

    def at(self, what: str, done: int, total: int) -> None:
        if self._progress is None or what != self._what:
            self._end()
            self._what = what
            self._progress = Progress(self._bar)
        self._total = max(total, 1)
        self._progress.at(done)
        if done >= total:
            self._end()

    def _bar(self, done: int) -> str:
        share = min(done / self._total, 1.0)
        full = round(share * BAR_LETTERS)
        return f"{self._what:<12} [{'#' * full}{'.' * (BAR_LETTERS - full)}] {share:4.0%}"

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.end()
            self._progress = None
