/* Follows every message: sent, acknowledged, received, received again, received out of order.
 *
 * A message carries its sequence number, which rises over the whole run, its client and the time it
 * was sent. Upwards it is received once, by our subscription; downwards once per subscribed client.
 * Order is judged per client and topic (each client has one topic): a message that arrives for the
 * first time after a later one is out of order. A repeated one is a duplicate, wherever it comes.
 */
#ifndef LOAD_LEDGER_H
#define LOAD_LEDGER_H

#include "base.h"

/* Sent before the run to see that the way is open; in no count. */
#define SEQUENCE_WARM_UP UINT64_MAX

struct message_stamp {
    uint32_t client;
    uint64_t sequence;
    uint64_t sent_at;
};

struct ledger {
    uint32_t run_id;
    unsigned clients;
    uint64_t sent;
    uint64_t acknowledged;
    uint64_t received;
    uint64_t duplicates;
    uint64_t out_of_order;
    /* Not ours: another run's, or of another shape. */
    uint64_t foreign;
    /* Upwards, one byte per sequence number. */
    uint8_t *up;
    size_t up_capacity;
    /* Downwards, one row of bits per client. */
    struct bit_row *down;
    /* Per client: the latest sequence number that arrived, plus one. */
    uint64_t *latest;
};

void ledger_open(struct ledger *ledger, unsigned clients);

void stamp_write(const struct ledger *ledger, uint8_t *payload, const struct message_stamp *stamp);
/* False, and counted as foreign, if the payload is not of this run. */
bool stamp_read(struct ledger *ledger, const uint8_t *payload, size_t bytes,
                struct message_stamp *stamp);

uint64_t ledger_sent(struct ledger *ledger);
void ledger_acknowledged(struct ledger *ledger, uint64_t sequence);
/* Both return true on the first arrival. */
bool ledger_arrived_up(struct ledger *ledger, const struct message_stamp *stamp);
/* `row` is the message's number among those of this client. */
bool ledger_arrived_down(struct ledger *ledger, unsigned client, uint64_t row,
                         const struct message_stamp *stamp);

/* Acknowledged by the gateway and never seen at the broker: the loss that must not be. */
uint64_t ledger_lost_acknowledged(const struct ledger *ledger);

#endif
