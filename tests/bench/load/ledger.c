#include "ledger.h"

#include <string.h>
#include <unistd.h>

#define ACKNOWLEDGED 0x80
#define ARRIVED 0x01

struct bit_row {
    uint8_t *bits;
    size_t bytes;
};

void ledger_open(struct ledger *ledger, unsigned clients)
{
    ledger->run_id = (uint32_t)now_ns() ^ (uint32_t)getpid();
    ledger->clients = clients;
    ledger->up_capacity = 1 << 20;
    ledger->up = allocate(ledger->up_capacity, 1);
    ledger->down = allocate(clients, sizeof *ledger->down);
    ledger->latest = allocate(clients, sizeof *ledger->latest);
}

void stamp_write(const struct ledger *ledger, uint8_t *payload, const struct message_stamp *stamp)
{
    memcpy(payload, &ledger->run_id, 4);
    memcpy(payload + 4, &stamp->client, 4);
    memcpy(payload + 8, &stamp->sequence, 8);
    memcpy(payload + 16, &stamp->sent_at, 8);
}

bool stamp_read(struct ledger *ledger, const uint8_t *payload, size_t bytes,
                struct message_stamp *stamp)
{
    bool ours = bytes >= 24 && memcmp(payload, &ledger->run_id, 4) == 0;
    if (ours) {
        memcpy(&stamp->client, payload + 4, 4);
        memcpy(&stamp->sequence, payload + 8, 8);
        memcpy(&stamp->sent_at, payload + 16, 8);
        ours = stamp->client < ledger->clients
               && (stamp->sequence < ledger->sent || stamp->sequence == SEQUENCE_WARM_UP);
    }
    if (!ours)
        ledger->foreign++;
    return ours;
}

uint64_t ledger_sent(struct ledger *ledger)
{
    if (ledger->sent == ledger->up_capacity) {
        ledger->up = grow(ledger->up, ledger->up_capacity, ledger->up_capacity * 2, 1);
        ledger->up_capacity *= 2;
    }
    return ledger->sent++;
}

void ledger_acknowledged(struct ledger *ledger, uint64_t sequence)
{
    ledger->up[sequence] |= ACKNOWLEDGED;
    ledger->acknowledged++;
}

static void judge_order(struct ledger *ledger, unsigned client, uint64_t sequence)
{
    if (sequence < ledger->latest[client])
        ledger->out_of_order++;
    else
        ledger->latest[client] = sequence + 1;
}

bool ledger_arrived_up(struct ledger *ledger, const struct message_stamp *stamp)
{
    uint8_t *mark = &ledger->up[stamp->sequence];
    if (*mark & ARRIVED) {
        ledger->duplicates++;
        return false;
    }
    *mark |= ARRIVED;
    ledger->received++;
    judge_order(ledger, stamp->client, stamp->sequence);
    return true;
}

bool ledger_arrived_down(struct ledger *ledger, unsigned client, uint64_t row,
                         const struct message_stamp *stamp)
{
    struct bit_row *seen = &ledger->down[client];
    if (row / 8 >= seen->bytes) {
        size_t bytes = seen->bytes ? seen->bytes : 64;
        while (row / 8 >= bytes)
            bytes *= 2;
        seen->bits = grow(seen->bits, seen->bytes, bytes, 1);
        seen->bytes = bytes;
    }
    uint8_t mask = (uint8_t)(1u << (row % 8));
    if (seen->bits[row / 8] & mask) {
        ledger->duplicates++;
        return false;
    }
    seen->bits[row / 8] |= mask;
    ledger->received++;
    judge_order(ledger, client, stamp->sequence);
    return true;
}

uint64_t ledger_lost_acknowledged(const struct ledger *ledger)
{
    uint64_t lost = 0;
    for (uint64_t sequence = 0; sequence < ledger->sent; sequence++)
        lost += (ledger->up[sequence] & ACKNOWLEDGED) && !(ledger->up[sequence] & ARRIVED);
    return lost;
}
