"""What is watched: an MQTT filter, a sensor by its name, or all readings.

Filters and topics are written as sensors write them: `upstream.topic_prefix` is put before them, as
the gateway does, unless they begin with it, or with `$`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.cli.watch.reading import Reading
from gateway.config.kinds import TEXT_BYTES_MAX, MismatchError, TopicFilter
from gateway.config.settings import Settings
from gateway.config.spelling import printable

EVERYTHING = "#"
OWN = "tidegate/"  # what gateways say of themselves, below it


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`topic_filter` as the broker has it. `name`: of a sensor, or else of a topic. `hidden`:
    beginnings of topics that are not readings.
    """

    topic_filter: str
    prefix: str = ""
    name: str | None = None
    hidden: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        if self.name is not None:
            return f"what {printable(self.name)} sends"
        return "all readings" if self.hidden else printable(self.topic_filter)

    def hides(self, topic: str) -> bool:
        """By its topic as the broker has it."""
        return topic.startswith(self.hidden) if self.hidden else False

    def wants(self, reading: Reading) -> bool:
        return self.name is None or self.name in (reading.client, reading.topic)


def is_name(wanted: str) -> bool:
    return not any(sign in wanted for sign in "/+#") and not wanted.startswith("$")


def choice_of(wanted: str | None, settings: Settings) -> Choice:
    """Raises MismatchError for a filter that is none."""
    prefix = settings.upstream.topic_prefix
    everything = f"{prefix}{EVERYTHING}"
    if wanted is None:
        discovery = f"{settings.home_assistant.discovery_prefix}/"
        hidden = (f"{prefix}{OWN}", discovery)
        return Choice(topic_filter=everything, prefix=prefix, hidden=hidden)
    if not wanted:
        raise MismatchError(TopicFilter(TEXT_BYTES_MAX).expected, wanted)
    if is_name(wanted):
        return Choice(topic_filter=everything, prefix=prefix, name=wanted)
    is_whole = wanted.startswith("$") or (prefix and wanted.startswith(prefix))
    topic_filter = TopicFilter(TEXT_BYTES_MAX).read(wanted if is_whole else prefix + wanted)
    return Choice(topic_filter=topic_filter, prefix=prefix)
