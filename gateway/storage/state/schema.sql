-- What outlasts a restart of the gateway beside its readings: the rows of gateway/core/state_records.py, one
-- table each. Written by gateway/storage/state/rows.py; a change here is a new step in migrations.py.
--
-- All tables are WITHOUT ROWID: the key is the only way in, and the only other index would be a
-- second tree to write for each row. Those of a client have its id first in their key, so that what
-- belongs together lies together: a client goes in one place of each tree, and loading, in the order
-- of the keys, never sorts. No further index: nothing is ever looked up by anything else.
--
-- No CHECK and no foreign key: a row that the core should not have made must not keep the rows that
-- are saved with it from the disk. What makes no sense is found and removed when it is loaded.

-- The gateway's own numbers: `epoch`, how many runs it had (see folder.py), `first_epoch`, and `run_ms`, how long they took
-- in all, as far as that is needed (see gateway/core/message_expiry.py).
CREATE TABLE meta (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Each client, where it is and what it declared. `link` is the link's name in the configuration,
-- because its number changes with the order there; empty: of no link. No will: will_topic is NULL.
CREATE TABLE sessions (
    client_id     TEXT    NOT NULL PRIMARY KEY,
    clean         INTEGER NOT NULL,
    link          TEXT    NOT NULL,
    address       BLOB    NOT NULL,
    state         TEXT    NOT NULL,
    keep_alive_s  INTEGER NOT NULL,
    sleep_s       INTEGER NOT NULL,
    will_topic    TEXT,
    will_payload  BLOB,
    will_qos      INTEGER,
    will_retain   INTEGER,
    next_topic_id INTEGER NOT NULL,
    next_position INTEGER NOT NULL
) WITHOUT ROWID;

-- Normal topic ids: a client goes on using them after a restart without registering anew.
CREATE TABLE topics (
    client_id TEXT    NOT NULL,
    topic_id  INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    PRIMARY KEY (client_id, topic_id)
) WITHOUT ROWID;

-- Topic filters of clients, and how the client spells each.
CREATE TABLE subscriptions (
    client_id     TEXT    NOT NULL,
    topic_filter  TEXT    NOT NULL,
    qos           INTEGER NOT NULL,
    topic_id_type INTEGER NOT NULL,
    topic_id      INTEGER NOT NULL,
    PRIMARY KEY (client_id, topic_filter)
) WITHOUT ROWID;

-- QoS 1 and 2 messages on their way to clients; in the order of their keys, which is a queue's.
CREATE TABLE messages (
    client_id   TEXT    NOT NULL,
    position    INTEGER NOT NULL,
    topic       TEXT    NOT NULL,
    payload     BLOB    NOT NULL,
    qos         INTEGER NOT NULL,
    retain      INTEGER NOT NULL,
    is_released INTEGER NOT NULL,
    PRIMARY KEY (client_id, position)
) WITHOUT ROWID;

-- Retained messages, served while the broker is away.
CREATE TABLE retained (
    topic    TEXT    NOT NULL PRIMARY KEY,
    payload  BLOB    NOT NULL,
    qos      INTEGER NOT NULL,
    is_exact INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;

-- QoS 2 messages from the broker that it has not released.
CREATE TABLE packets (
    packet_id  INTEGER NOT NULL PRIMARY KEY,
    contents   INTEGER NOT NULL,
    brought_by INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Topic filters that the broker may have from us, so that what nobody needs after a restart goes.
CREATE TABLE filters (
    topic_filter TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- Wills of clients that are lost, as long as neither journal nor broker has them; with the delivery
-- tag of each. No rows of their client: they outlast its session.
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

-- Clients that the operator let in while only listed ones may come (admission.permit).
CREATE TABLE permits (
    client_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- Clients that came while joining was open, and wait for the operator's approval. An older Tidegate
-- leaves it as it is, as the next one.
CREATE TABLE IF NOT EXISTS waiting (
    client_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- Readings that the broker does not take, with their delivery tag. An older Tidegate knows nothing of
-- this table and leaves it as it is, so it is no step of migrations.py: it is made where it is missing.
CREATE TABLE IF NOT EXISTS aside (
    number       INTEGER NOT NULL PRIMARY KEY,
    client_id    TEXT    NOT NULL,
    topic        TEXT    NOT NULL,
    payload      BLOB    NOT NULL,
    qos          INTEGER NOT NULL,
    retain       INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    sequence     INTEGER NOT NULL,
    packet_id    INTEGER NOT NULL,
    unix_ms      INTEGER NOT NULL,
    set_aside_ms INTEGER NOT NULL,
    reason       TEXT    NOT NULL
) WITHOUT ROWID;

-- Messages of `messages` and `retained` that are not for ever: how much time each had left when the gateway
-- had run for `run_ms` in all its runs and the wall clock said `unix_ms` (0: it was not set). `contents` is
-- a checksum of the message. An older Tidegate leaves these tables as they are as well: what it put in the
-- place of a message has other contents, and the row here counts no more.
CREATE TABLE IF NOT EXISTS message_expiries (
    client_id TEXT    NOT NULL,
    position  INTEGER NOT NULL,
    contents  INTEGER NOT NULL,
    left_ms   INTEGER NOT NULL,
    run_ms    INTEGER NOT NULL,
    unix_ms   INTEGER NOT NULL,
    PRIMARY KEY (client_id, position)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS retained_expiries (
    topic    TEXT    NOT NULL PRIMARY KEY,
    contents INTEGER NOT NULL,
    left_ms  INTEGER NOT NULL,
    run_ms   INTEGER NOT NULL,
    unix_ms  INTEGER NOT NULL
) WITHOUT ROWID;

-- Protected packets (gateway/core/protection/channel.py): how far the counters of each device and key epoch
-- have come, in blocks, and in which scheme it was heard last. An older Tidegate leaves this table as it is.
CREATE TABLE IF NOT EXISTS protection (
    sender_id       BLOB    NOT NULL,
    epoch           INTEGER NOT NULL,
    series          INTEGER NOT NULL,
    next_counter    INTEGER NOT NULL,
    received_series INTEGER NOT NULL,
    bound           INTEGER NOT NULL,
    scheme          INTEGER NOT NULL,
    tag_bytes       INTEGER NOT NULL,
    PRIMARY KEY (sender_id, epoch)
) WITHOUT ROWID;

-- Empty but for moments: what is put in and taken out leaves free pages in the file (see room.py).
CREATE TABLE room (
    filling BLOB NOT NULL
);
