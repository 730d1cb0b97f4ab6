#include "pace.h"

/* An open loop wakes no more often than this: what is due in between goes as one small burst. */
#define PACE_NS_MIN (50 * NS_PER_US)
/* A generator that was not scheduled this long leaves out what it missed instead of bursting: the
 * burst would measure the generator's own absence. Where it was not absent but all clients waited
 * for their acknowledgements, whoever has one goes on at once, and only what is older is left out. */
#define CATCH_UP_NS_MAX (5 * NS_PER_MS)
/* Closed loop without acknowledgements: after this long without an arrival, what is under way is
 * taken for lost, so that the run goes on. */
#define WRITE_OFF_AFTER_NS (300 * NS_PER_MS)

bool waits_for_its_client(const struct bench *bench)
{
    return bench->options.mode == MODE_PUB && bench->options.qos > 0;
}

/* Open loop: when the next burst is due, or was due if it is not complete. */
static uint64_t next_burst_at(const struct bench *bench, const struct pace *pace)
{
    uint64_t bursts = bench->ledger.sent / bench->options.burst;
    double messages = (double)(bursts * bench->options.burst);
    return pace->schedule_began + ns_from_seconds(messages / bench->options.rate_per_s);
}

static uint64_t due_by_rate(struct bench *bench, struct pace *pace)
{
    unsigned burst = bench->options.burst;
    uint64_t missing = burst - bench->ledger.sent % burst;
    uint64_t next_at = next_burst_at(bench, pace);
    if (bench->now < next_at)
        return 0;
    uint64_t late_ns = bench->now - next_at;
    if (late_ns > bench->late_ns_max)
        bench->late_ns_max = late_ns;
    if (late_ns > CATCH_UP_NS_MAX) {
        uint64_t kept_ns = pace->lacked_clients ? CATCH_UP_NS_MAX : 0;
        pace->schedule_began += late_ns - kept_ns;
        bench->skipped_ns += late_ns - kept_ns;
        if (kept_ns == 0)
            return missing;
        late_ns = kept_ns;
    }
    double late_s = (double)late_ns / (double)NS_PER_S;
    return missing + (uint64_t)(late_s * bench->options.rate_per_s / burst) * burst;
}

static uint64_t due_by_window(struct bench *bench, struct pace *pace)
{
    unsigned per_message = bench->deliveries_per_message;
    uint64_t under_way = bench->ledger.sent * per_message - bench->ledger.received;
    if (bench->ledger.received != pace->received_before) {
        pace->received_before = bench->ledger.received;
        pace->progressed_at = bench->now;
    } else if (bench->now - pace->progressed_at > WRITE_OFF_AFTER_NS) {
        pace->written_off = under_way;
        pace->progressed_at = bench->now;
    }
    under_way -= pace->written_off < under_way ? pace->written_off : under_way;
    if (under_way >= bench->options.window)
        return 0;
    return (bench->options.window - under_way + per_message - 1) / per_message;
}

uint64_t messages_due(struct bench *bench, struct pace *pace)
{
    uint64_t count;
    if (bench->options.rate_per_s > 0)
        count = due_by_rate(bench, pace);
    else if (waits_for_its_client(bench))
        count = bench->idle.count;
    else
        count = due_by_window(bench, pace);
    pace->lacked_clients = waits_for_its_client(bench) && count > bench->idle.count;
    if (pace->lacked_clients)
        count = bench->idle.count;
    return count < BURST_MAX ? count : BURST_MAX;
}

uint64_t wait_until_due(const struct bench *bench, const struct pace *pace)
{
    if (bench->options.rate_per_s <= 0 || pace->lacked_clients)
        return WAIT_NS_MAX; /* an arrival makes room, and wakes us */
    uint64_t next_at = next_burst_at(bench, pace);
    uint64_t now = now_ns();
    uint64_t wait_ns = next_at > now ? next_at - now : 0;
    if (wait_ns < PACE_NS_MIN)
        return PACE_NS_MIN;
    return wait_ns < WAIT_NS_MAX ? wait_ns : WAIT_NS_MAX;
}
