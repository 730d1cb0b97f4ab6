/* How many messages are due now: by a rate (open loop) or by what is under way (closed loop). */
#ifndef LOAD_PACE_H
#define LOAD_PACE_H

#include "bench.h"

/* The longest that the run waits for an arrival before it looks at the clock. */
#define WAIT_NS_MAX NS_PER_MS

struct pace {
    /* More was due than there were clients without a message under way. */
    bool lacked_clients;
    /* Open loop: when message 0 was due. Moves on by what was left out. */
    uint64_t schedule_began;
    /* Closed loop without acknowledgements. */
    uint64_t received_before;
    uint64_t progressed_at;
    uint64_t written_off;
};

/* QoS 1 and 2 upwards: one message under way per client. */
bool waits_for_its_client(const struct bench *bench);
/* At most BURST_MAX. */
uint64_t messages_due(struct bench *bench, struct pace *pace);
uint64_t wait_until_due(const struct bench *bench, const struct pace *pace);

#endif
