"""Lengths of time for people."""


def duration(seconds: float) -> str:
    """The two largest units: `3 d 4 h`, `5 min 7 s`."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    if day:
        return f"{day} d {hour} h"
    if hour:
        return f"{hour} h {minute} min"
    return f"{minute} min {second} s" if minute else f"{second} s"
