"""A batch of messages to Kafka, in a thread of its own, one at a time, as SegmentWriter has it.

Rule 1: `write` returns when Kafka has answered for each record, by all replicas in sync (acks=all);
        never before. If one is not answered for, all of the batch are sent again, later: that makes
        repeats in the topic, which the tables do not take, and never a loss.
Rule 2: after an error the client is thrown away, with all that waits in it, so memory holds a batch
        once. A record of it that arrives yet is a repeat.

What this collector has learned about payloads is a file of its lake, as Kafka has no place for it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from spark_ingest.kafka.record import Record, records_of
from spark_ingest.kafka.topic import KafkaOptions, KafkaUnreachableError, Topic
from spark_ingest.payload.record import Delivery, Fault
from spark_ingest.payload.registry import Registry
from spark_ingest.segments.disk import Disk
from spark_ingest.segments.rows import RowOptions, Rows
from spark_ingest.segments.sequences import Encoded
from spark_ingest.segments.writing import Written, rows_of

log = logging.getLogger("tidegate.ingest.kafka")

LEARNED = "learned"  # the folder in the lake
ANSWER_S = 0.2  # how long it waits for answers before it looks at the clock
ANSWERS_EVERY = 1000  # records, while there are more to give it
GRACE_S = 5.0  # of the client, whose own clock ends the wait


class KafkaWriter:
    place = "Kafka"
    unit = "batch"

    def __init__(
        self, options: KafkaOptions, registry: Registry, row_options: RowOptions, lake: Path
    ) -> None:
        self._options = options
        self._registry = registry
        self._row_options = row_options
        self._topic = Topic(options)
        self._is_ready = False
        self._producer: Any = None
        self._disk = Disk()
        self._learned_path = lake / LEARNED / f"{options.name}.json"
        self._learned: Mapping[str, object] = {}

    def remember(self) -> None:
        """What previous runs learned about payloads."""
        try:
            self._learned = json.loads(self._learned_path.read_bytes())
            self._registry.restore(self._learned)  # type: ignore[arg-type]  # as we wrote it
        except FileNotFoundError:
            pass
        except (OSError, ValueError, AttributeError, TypeError) as error:
            log.error("%s: %s; it is written again", self._learned_path, error)

    def newest_ids(self, _segments_max: int) -> Iterator[Mapping[str, Encoded]]:
        """Of the records at the end of the topic. What cannot be had now, gateways send again."""
        try:
            self._make_ready()
            yield from self._topic.newest_ids()
        except OSError as error:
            log.warning("%s: %s; receipts begin with what comes", error.filename, error.strerror)

    def write(self, deliveries: list[Delivery]) -> Written:
        """When this returns they are durable. Raises OSError; then they may not be acknowledged."""
        self._make_ready()
        rows = rows_of(deliveries, self._registry, self._row_options)
        records, written = self._recorded(rows)
        self._keep_learned()
        self._send(records)
        return written

    def _recorded(self, rows: Rows) -> tuple[list[Record], Written]:
        columns, footer = rows.finished(self._options.name, 0)
        records = list(records_of(columns, self._options.record_bytes_max))
        cut = sum(record.is_cut for record in records)
        if cut:
            found = Counter(footer.quarantined) + Counter({Fault.TOO_LARGE.value: cut})
            footer = replace(footer, quarantined=found, rows=sum(record.rows for record in records))
        return records, Written(footer, sum(len(record.value) for record in records))

    def _send(self, records: list[Record]) -> None:
        from confluent_kafka import KafkaException

        answers = _Answers(monotonic() + self._options.timeout_s + GRACE_S)
        producer = self._connected()
        try:
            for number, record in enumerate(records, 1):
                self._produce(producer, record, answers)
                if number % ANSWERS_EVERY == 0:
                    producer.poll(0)
            while answers.good < len(records) and not answers.is_over:
                producer.poll(ANSWER_S)
        except KafkaException as error:
            answers.bad[error.args[0].str()] += 1
        if answers.good < len(records):
            self._give_up(producer, answers)

    def _produce(self, producer: Any, record: Record, answers: _Answers) -> None:
        while not answers.is_over:
            try:
                producer.produce(
                    self._options.topic, record.value, record.key,
                    headers=record.headers, on_delivery=answers.take,
                )  # fmt: skip
            except BufferError:  # it has as much as it can hold
                producer.poll(ANSWER_S)
            else:
                return

    def _give_up(self, producer: Any, answers: _Answers) -> None:
        """Rule 2."""
        producer.purge()
        self._producer, self._is_ready = None, False
        why = answers.bad.most_common(1)[0][0] if answers.bad else "no answer"
        raise KafkaUnreachableError(why, self._options.servers)

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._topic.make_ready()
            self._is_ready = True

    def _connected(self) -> Any:
        from confluent_kafka import Producer

        if self._producer is None:
            options = self._options
            ours = {
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": options.compression,
                "message.timeout.ms": round(options.timeout_s * 1000),
                "message.max.bytes": options.record_bytes_max + 2 * 65_536,
                "linger.ms": 5,
            }
            self._producer = Producer({**self._topic.client_settings(), **ours})
        return self._producer

    def _keep_learned(self) -> None:
        """Before a record that was checked against it."""
        described = self._registry.described()
        if described == self._learned:
            return
        self._disk.make_folder(self._learned_path.parent)
        self._disk.replace(self._learned_path, json.dumps(described).encode())
        self._learned = described


class _Answers:
    """Of Kafka, to the records of one try."""

    def __init__(self, deadline: float) -> None:
        self.good = 0
        self.bad: Counter[str] = Counter()
        self._deadline = deadline

    @property
    def is_over(self) -> bool:
        """All of the batch will be sent again, so there is no use in the rest of it."""
        return bool(self.bad) or monotonic() > self._deadline

    def take(self, error: Any, _record: Any) -> None:
        if error is None:
            self.good += 1
        else:
            self.bad[error.str()] += 1
