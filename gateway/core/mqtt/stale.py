"""Whether a reading that waited in the journal is still worth sending."""

from __future__ import annotations

from gateway.core.drop_reasons import Reason
from gateway.core.mqtt.backlog import Backlog
from gateway.core.process_pauses import ProcessPauses
from gateway.core.topic_options import OptionsByTopic
from gateway.core.values import Reading


class StaleCheck:
    def __init__(
        self, *, topic_options: OptionsByTopic, backlog: Backlog, pauses: ProcessPauses, epoch: int
    ) -> None:
        self._options = topic_options
        self._backlog = backlog
        self._pauses = pauses
        self._epoch = epoch

    def reason(self, reading: Reading, now: float) -> Reason | None:
        """Why it is dropped instead; None if it is to be sent."""
        if reading.upstream_qos:  # the broker may have half of it
            return None
        options = self._options.of(reading.topic)
        if options.expiry_s and self.age_s(reading, now) > options.expiry_s:
            return Reason.EXPIRED
        if options.coalesce_retained and self._backlog.is_outdated(reading, self._epoch):
            return Reason.COALESCED
        return None

    def age_s(self, reading: Reading, now: float) -> float:
        """A reading grows old also while this process stands still."""
        machine_time = self._pauses.machine_time
        return machine_time(now) - machine_time(reading.received_at)
