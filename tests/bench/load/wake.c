#include "wake.h"

#include "pace.h"
#include "traffic.h"

#define SLEEP_TIMEOUT_S 20
#define WAKE_BURST_MAX 64

static void wait_for_all(struct bench *bench, uint64_t expected, double seconds)
{
    uint64_t give_up_at = now_ns() + ns_from_seconds(seconds);
    while (bench->now < give_up_at) {
        if (bench->unacknowledged == 0 && bench->ledger.received >= expected)
            return;
        pump(bench, WAIT_NS_MAX);
    }
}

static void fall_asleep(struct bench *bench)
{
    for (unsigned index = 0; index < bench->options.clients; index++) {
        sensor_fall_asleep(bench, index);
        if (index % WAKE_BURST_MAX == 0)
            pump(bench, 0);
    }
    wait_for_all(bench, 0, SLEEP_TIMEOUT_S);
    if (bench->unacknowledged > 0)
        fatal("%llu clients could not fall asleep", (unsigned long long)bench->unacknowledged);
}

/* A message for each, and time for the gateway to take them. */
static void leave_messages(struct bench *bench)
{
    uint64_t wanted = bench->ledger.sent + bench->options.clients;
    uint64_t give_up_at = now_ns() + SLEEP_TIMEOUT_S * NS_PER_S;
    while (bench->ledger.sent < wanted && bench->now < give_up_at) {
        publish_through_broker(bench, wanted - bench->ledger.sent);
        pump(bench, WAIT_NS_MAX);
    }
    uint64_t until = now_ns() + ns_from_seconds(bench->options.hold_s);
    while (bench->now < until)
        pump(bench, WAIT_NS_MAX);
}

static void wake_all(struct bench *bench)
{
    struct process_usage gateway = process_usage(bench->options.gateway_pid);
    uint64_t early = bench->ledger.received;
    uint64_t began = now_ns();
    bench->last_arrival = began;
    for (unsigned index = 0; index < bench->options.clients; index++) {
        sensor_wake(bench, index);
        if (index % WAKE_BURST_MAX == WAKE_BURST_MAX - 1)
            pump(bench, 0);
    }
    wait_for_all(bench, bench->ledger.sent, bench->options.drain_s);
    struct wake *wake = &bench->wake;
    wake->rounds++;
    wake->early += early - wake->received_before;
    wake->received_before = bench->ledger.received;
    if (bench->last_arrival - began > wake->longest_ns)
        wake->longest_ns = bench->last_arrival - began;
    wake->gateway_cpu_s += process_usage(bench->options.gateway_pid).cpu_s - gateway.cpu_s;
}

void run_wake(struct bench *bench)
{
    uint64_t began = now_ns();
    bench->deliveries_per_message = 1;
    fall_asleep(bench);
    for (unsigned round = 0; round < bench->options.rounds; round++) {
        leave_messages(bench);
        wake_all(bench);
    }
    bench->run_s = (double)(now_ns() - began) / (double)NS_PER_S;
}
