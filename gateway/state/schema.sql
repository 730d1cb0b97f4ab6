-- What outlasts a restart of the gateway beside its readings. Version 1.
--
-- WITHOUT ROWID where a row is small and is found by its key alone: one tree instead of two, and
-- half the pages to write for a change.

-- The epoch.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- One row for each client that has a session. `link` is the name of its link: numbers of links
-- change with the configuration.
CREATE TABLE sessions (
    client_id TEXT PRIMARY KEY,
    clean INTEGER NOT NULL,
    link TEXT NOT NULL,
    address BLOB NOT NULL,
    state TEXT NOT NULL,
    keep_alive_s INTEGER NOT NULL,
    sleep_s INTEGER NOT NULL,
    will_topic TEXT,
    will_payload BLOB,
    will_qos INTEGER,
    will_retain INTEGER,
    next_topic_id INTEGER NOT NULL,
    next_position INTEGER NOT NULL
) WITHOUT ROWID;

-- Topic ids; the key brings those of one client together, for loading and for deleting.
CREATE TABLE topics (
    client_id TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (client_id, topic_id)
) WITHOUT ROWID;

CREATE TABLE subscriptions (
    client_id TEXT NOT NULL,
    topic_filter TEXT NOT NULL,
    qos INTEGER NOT NULL,
    topic_id_type INTEGER NOT NULL,
    topic_id INTEGER NOT NULL,
    PRIMARY KEY (client_id, topic_filter)
) WITHOUT ROWID;

-- Messages that a client has not acknowledged. Payloads may be large, so rows are found by an
-- index: in a tree of keys a large row would leave room for few others on its page.
CREATE TABLE messages (
    client_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    topic TEXT NOT NULL,
    payload BLOB NOT NULL,
    qos INTEGER NOT NULL,
    retain INTEGER NOT NULL,
    is_released INTEGER NOT NULL,
    PRIMARY KEY (client_id, position)
);

CREATE TABLE retained (
    topic TEXT PRIMARY KEY,
    payload BLOB NOT NULL,
    qos INTEGER NOT NULL
);

-- QoS 2 messages from the broker that wait for its PUBREL.
CREATE TABLE packets (
    packet_id INTEGER PRIMARY KEY,
    contents INTEGER NOT NULL
);

-- What we are subscribed to at the broker.
CREATE TABLE filters (
    topic_filter TEXT PRIMARY KEY
) WITHOUT ROWID;
