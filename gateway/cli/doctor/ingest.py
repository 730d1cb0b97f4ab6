"""Whether readings that are kept until they are ingested are: as the running gateway says it."""

from gateway.admin.conditions import ingest_doubts
from gateway.admin.http.answers import STATUS_SCHEMA
from gateway.admin.part_numbers import IngestNumbers
from gateway.cli.asking import NoAnswerError, ask_this
from gateway.cli.doctor.findings import Finding, Level
from gateway.config import Configuration


def ingest_findings(configuration: Configuration) -> list[Finding]:
    """None where nothing is kept, and where no gateway runs that could be asked."""
    settings = configuration.settings
    keeps = settings.journal.keep_until_ingested
    if not keeps and not any(each.keep_until_ingested for each in settings.topic):
        return []
    try:
        answer = ask_this(configuration, "/api/status", STATUS_SCHEMA)
    except NoAnswerError as error:
        advice = "start the gateway, then ask again"
        return [Finding(Level.NOTE, f"whether readings are ingested is not known: {error}", advice)]
    warnings = ingest_doubts(IngestNumbers(**answer["ingest"]), str(answer["gateway"]))
    return [Finding(Level.WARNING, each, "docs/guarantees.md, promise 8") for each in warnings]
