"""Whether a program said what a document shows: the same words, whatever the numbers in them.

Times, durations, sizes, addresses and ids differ from run to run, so digits are not compared. `...`
in a line stands for any text, alone in a line for any lines.
"""

from __future__ import annotations

import re

_DURATION = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h|days?)\b(?: \d+ (?:s|min|h)\b)*")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_ANY_NUMBER = "#"


def plain(line: str) -> str:
    return " ".join(_NUMBER.sub(_ANY_NUMBER, _DURATION.sub("# s", line)).split())


def difference(shown: str, said: str) -> str | None:
    """What is shown and was not said, or the other way round; None where they agree."""
    pattern, lines = "", [line for line in map(plain, shown.splitlines()) if line]
    for line in lines:
        if line == "...":
            pattern += "(?:.*\n)*"
        else:
            pattern += ".*".join(map(re.escape, line.split("..."))) + "\n"
    got = "".join(f"{line}\n" for line in map(plain, said.splitlines()) if line)
    if re.fullmatch(pattern, got):
        return None
    return f"shown, without its numbers:\n{chr(10).join(lines)}\nsaid:\n{got}"
