"""`check`: whether the configuration is right."""

from __future__ import annotations

import argparse

from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.cli.sources import add_source_arguments, settings_from
from spark_ingest.collect.credentials import password_of, tls_of
from spark_ingest.config import ConfigError

HELP = "check a configuration and say what it means"
EXAMPLE = "python -m spark_ingest check --config ingest.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    try:
        tls_of(settings.broker)
        password_of(settings.broker)
    except ConfigError as error:
        raise VerbError(ExitCode.CONFIGURATION, str(error)) from None
    collector = settings.collector
    topics = ", ".join(collector.topics)
    print(
        f"{collector.name} collects {topics} of {settings.broker.url} as one of {collector.group}"
    )
    if settings.kafka.servers is None:
        print(f"into {settings.lake.folder / 'segments' / collector.name}")
    else:
        print(f"into the topic {settings.kafka.topic} of Kafka at {settings.kafka.servers}")
    for schema in settings.schema:
        print(
            f"{schema.topic} is {schema.name}: {', '.join(schema.fields) or 'fields as they come'}"
        )
    return ExitCode.OK
