-- The dump of a database of schema version 5. Never changed: gateways in the field have such ones.
BEGIN TRANSACTION;
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
INSERT INTO "due_wills" VALUES('ann','last/words',X'00676F6E65',2,1,41,7,65535,2199023255552);
CREATE TABLE filters (
    topic_filter TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO "filters" VALUES('cmd/#');
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
INSERT INTO "messages" VALUES('ann',11,'cmd/vent',X'0001',2,1,1);
CREATE TABLE meta (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('epoch',41);
CREATE TABLE packets (
    packet_id  INTEGER NOT NULL PRIMARY KEY,
    contents   INTEGER NOT NULL,
    brought_by INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "packets" VALUES(65535,4294967295,268435455);
CREATE TABLE permits (
            client_id TEXT NOT NULL PRIMARY KEY
        ) WITHOUT ROWID;
INSERT INTO "permits" VALUES('ann');
CREATE TABLE retained (
    topic    TEXT    NOT NULL PRIMARY KEY,
    payload  BLOB    NOT NULL,
    qos      INTEGER NOT NULL,
    is_exact INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
INSERT INTO "retained" VALUES('site/mode',X'6175746F',1,0);
CREATE TABLE room (
    filling BLOB NOT NULL
);
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
INSERT INTO "sessions" VALUES('ann',1,'udp1',X'0A00','asleep',60,900,'gone/änn',X'FF00',1,1,7,12);
INSERT INTO "sessions" VALUES('bob',0,'udp0',X'0200075B','active',0,0,NULL,NULL,NULL,NULL,1,0);
CREATE TABLE subscriptions (
    client_id     TEXT    NOT NULL,
    topic_filter  TEXT    NOT NULL,
    qos           INTEGER NOT NULL,
    topic_id_type INTEGER NOT NULL,
    topic_id      INTEGER NOT NULL,
    PRIMARY KEY (client_id, topic_filter)
) WITHOUT ROWID;
INSERT INTO "subscriptions" VALUES('ann','cmd/#',2,1,9);
CREATE TABLE topics (
    client_id TEXT    NOT NULL,
    topic_id  INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    PRIMARY KEY (client_id, topic_id)
) WITHOUT ROWID;
INSERT INTO "topics" VALUES('ann',6,'gewächshaus/temperatur');
COMMIT;
PRAGMA user_version = 5;
