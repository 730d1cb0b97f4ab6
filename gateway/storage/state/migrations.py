"""Brings a database to the schema of this version; `PRAGMA user_version` says which one it has.

A new database gets schema.sql as it stands. An older one takes the steps that it lacks, each in one
transaction with its number, so that a power cut leaves it whole at one of them. A newer one is
refused and left as it is: what it holds is beyond us.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.storage.state.errors import StateError


@dataclass(frozen=True, slots=True)
class Step:
    """From the version before to `version`."""

    version: int
    script: str


def schema() -> str:
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


# In order. The first is the first schema as a whole. A change of schema.sql is a further step that
# takes an older database there; tests/storage/state/test_migrations.py compares the two.
FIRST_VERSION = 1
STEPS: tuple[Step, ...] = (
    Step(
        2,
        """
        CREATE TABLE due_wills (
            client_id TEXT    NOT NULL PRIMARY KEY,
            topic     TEXT    NOT NULL,
            payload   BLOB    NOT NULL,
            qos       INTEGER NOT NULL,
            retain    INTEGER NOT NULL,
            epoch     INTEGER NOT NULL,
            sequence  INTEGER NOT NULL,
            packet_id INTEGER NOT NULL,
            unix_ms   INTEGER NOT NULL
        ) WITHOUT ROWID;
        """,
    ),
    Step(
        3,
        """
        CREATE TABLE permits (
            client_id TEXT NOT NULL PRIMARY KEY
        ) WITHOUT ROWID;
        """,
    ),
    Step(4, "ALTER TABLE packets ADD COLUMN brought_by INTEGER NOT NULL DEFAULT 0;\n"),
    Step(5, "ALTER TABLE retained ADD COLUMN is_exact INTEGER NOT NULL DEFAULT 1;\n"),
)


def migrate(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Raises StateError for a newer database, sqlite3.Error for what the disk refuses."""
    newest = steps[-1].version if steps else FIRST_VERSION
    found = version_of(connection)
    if found > newest:
        raise StateError(
            errno.EINVAL,
            f"state.db was written by a newer Tidegate (schema {found}, this one knows {newest}): "
            "install that version again, or move state.db away to begin without it",
        )
    if found == 0:
        _apply(connection, Step(newest, schema()))
        return
    for step in steps:
        if step.version > found:
            _apply(connection, step)
    _add_tables(connection)


def _add_tables(connection: sqlite3.Connection) -> None:
    """Those that an older version need not know, so that it still opens the database."""
    for statement in statements(schema()):
        if "CREATE TABLE IF NOT EXISTS" in statement:
            connection.execute(statement)


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _apply(connection: sqlite3.Connection, step: Step) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements(step.script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {step.version}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def statements(script: str) -> Iterator[str]:
    """One by one, because `executescript` would end the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
