"""What of presence and Home Assistant can be meant: a part of `rules.py`."""

from gateway.config.gathering import Gathering
from gateway.config.settings import Settings
from gateway.config.spelling import KeyPath


def check_notices(settings: Settings, gathering: Gathering) -> None:
    enable: KeyPath = ("home_assistant", "enable")
    clients: KeyPath = ("presence", "clients")
    if settings.home_assistant.enable and not settings.presence.clients:
        message = "expected presence.clients = true beside it, by which Home Assistant knows who "
        message += "is there"
        if clients not in gathering.unclear:
            gathering.complain(gathering.given[enable].origin, enable, message)
    for index in range(len(settings.home_assistant_value)):
        entry: KeyPath = ("home_assistant_value", index)
        if any(path is not None and path[:2] == entry for path in gathering.unclear):
            continue
        if (*entry, "name") not in gathering.given:
            origin = gathering.entries[("home_assistant_value",)][index]
            gathering.complain(origin, entry, 'expected the name of a value, such as name = "co2"')
