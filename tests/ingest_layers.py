"""Who may import whom in spark_ingest/, and how such a rule is written. tests/test_layers.py holds
it against every file.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowed:
    layers: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()  # by import name, beside the standard library


def allowed(*layers: str, packages: tuple[str, ...] = ()) -> Allowed:
    return Allowed(frozenset(layers), frozenset(packages))


# The core of its collector is pure as well.
INGEST_PURE = frozenset(
    {
        *("record", "topic_filters", "sequences", "packets", "payload", "registry"),
        *("footer", "rows", "batch", "session", "receipts", "planning", "sketch"),
        *("kafka_record", "leaving_out"),
    }
)
INGEST_ONE_FILE = INGEST_PURE - {"payload", "planning"}
INGEST_LAYERS = {
    "record": allowed(),
    "topic_filters": allowed(),
    "sequences": allowed(),
    "leaving_out": allowed("record", "topic_filters"),
    "packets": allowed(packages=("mqtt5",)),
    "payload": allowed("record", packages=("cbor2",)),
    "registry": allowed("payload", "record", "topic_filters"),
    "footer": allowed("record", "sequences"),
    "rows": allowed("footer", "payload", "record", "registry", "sequences"),
    "batch": allowed("record"),
    "session": allowed("packets", "record", packages=("mqtt5",)),
    "receipts": allowed("sequences"),
    "planning": allowed("footer", "sequences"),
    "sketch": allowed(),
    "config": allowed("tables", "topic_filters"),
    "disk": allowed(),
    "shelf": allowed("disk"),
    # The only one of the collector that knows PyArrow; it imports nothing heavier.
    "segment": allowed("footer", "record", "rows", packages=("pyarrow",)),
    "writing": allowed("footer", "record", "registry", "rows", "segment", "sequences", "shelf"),
    "kafka_record": allowed("record", "rows"),
    # The only one that knows Kafka's client.
    "kafka": allowed(
        *("disk", "kafka_record", "record", "registry", "rows", "sequences", "writing"),
        packages=("confluent_kafka",),
    ),
    "counters": allowed("record", "writing", packages=("prometheus_client",)),
    "reconnecting": allowed(),
    "collector": allowed(
        "leaving_out",
        *("batch", "counters", "receipts", "reconnecting", "record", "session", "writing"),
    ),
    "assembly": allowed(
        *("batch", "collector", "config", "payload", "receipts", "registry", "rows", "session"),
        "kafka",
    ),
    # Readers of the lake, in Spark or not.
    "lake": allowed("footer", "segment", "shelf"),
    "reading": allowed("planning", "segment", "sequences", packages=("numpy", "pyarrow")),
    "consumers": allowed(),
    "retention": allowed("consumers", "footer", "segment", "shelf"),
    "checkpoint": allowed("disk"),
    "seen_batches": allowed("checkpoint", "disk", "planning"),
    "half_way": allowed("checkpoint", "disk", "payload", "registry", "rows"),
    "tables": allowed("record", packages=("pyarrow",)),
    "partials": allowed("sketch", "tables", packages=("pyarrow",)),
    "delta": allowed("disk", "tables", packages=("deltalake", "pyarrow")),
    "report": allowed("tables", packages=("deltalake", "pyarrow")),
    # `demo` alone: programs that it starts, and what sensors say to them.
    "chain": allowed("segment", "sequences", "shelf"),
    "java": allowed(),
    "made_up": allowed("record", "registry", "rows", "shelf", "writing"),
    # The only one that knows PySpark.
    "spark": allowed(
        *(
            "checkpoint",
            "consumers",
            "delta",
            "half_way",
            "java",
            "kafka_record",
            "lake",
            "partials",
            "planning",
            "reading",
            "record",
        ),
        *("registry", "rows", "seen_batches", "segment", "sequences", "shelf", "sketch", "tables"),
        packages=("grpc", "prometheus_client", "py4j", "pyarrow", "pyspark"),
    ),
    "cli": allowed(
        *("assembly", "collector", "config", "counters", "footer", "segment", "shelf", "writing"),
        *("checkpoint", "consumers", "delta", "java", "lake", "made_up", "retention", "spark"),
        *("chain", "kafka", "report", "tables"),
        # Of PySpark only its errors and functions, in verbs that have looked whether it is there.
        packages=("deltalake", "prometheus_client", "pyspark", "uvloop"),
    ),
    "__main__": allowed("cli"),
    "__init__": allowed(),
}
