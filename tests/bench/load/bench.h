/* One run: its options, its clients, its connections to the broker, and what was seen.
 *
 * One thread, one epoll set. `now` is read once per batch of events, so it is the time of arrival
 * of whatever is being handled.
 */
#ifndef LOAD_BENCH_H
#define LOAD_BENCH_H

#include "base.h"
#include "broker_link.h"
#include "histogram.h"
#include "ledger.h"
#include "options.h"
#include "process.h"
#include "sensor.h"

/* What epoll gives back: the number of a sensor, or one of these. */
#define TAG_SUBSCRIBER UINT64_MAX
#define TAG_PUBLISHER (UINT64_MAX - 1)

struct snapshot {
    struct process_usage gateway;
    struct process_usage broker;
    double own_cpu_s;
    unsigned long long udp_receive_buffer_errors;
};

/* With --broker-returns: from the end of our connection to the broker to the next subscription. */
struct outage {
    uint64_t away_at;
    uint64_t back_at;
    /* Of what was sent meanwhile. */
    struct histogram acknowledging;
    /* What was sent before the broker was back and arrived afterwards. */
    uint64_t backlog;
    uint64_t drain_began;
    uint64_t drained_at;
};

/* Of mode wake. */
struct wake {
    unsigned rounds;
    /* Of all rounds the longest, from the first PINGREQ to the last message and PINGRESP. */
    uint64_t longest_ns;
    /* Messages that came to somebody asleep. */
    uint64_t early;
    uint64_t received_before;
    /* From the first PINGREQ to the last answer. */
    double gateway_cpu_s;
};

struct bench {
    struct options options;
    int epoll;
    uint64_t now;
    uint64_t last_arrival;
    uint64_t next_timer_scan;
    /* When to try the broker again that is away. */
    uint64_t next_open_at;

    struct sensor *sensors;
    struct sensor_counts counts;
    /* A ring of those that may send: QoS 1 and 2 have one message under way per client. */
    struct idle_ring idle;
    bool running;
    /* Messages of QoS 1 and 2 that wait for their acknowledgement. */
    uint64_t unacknowledged;
    unsigned warmed_up;
    /* How often each message should arrive: 1, or once per subscriber of a shared topic. */
    unsigned deliveries_per_message;

    struct broker_link subscriber;
    struct broker_link publisher;

    struct ledger ledger;
    struct histogram connecting;
    struct histogram end_to_end;
    struct histogram acknowledging;
    struct outage outage;
    struct wake wake;

    struct snapshot at_start;
    struct snapshot when_connected;
    struct snapshot at_end;
    double connect_s;
    double run_s;
    /* Open loop: how far behind its schedule the generator fell, and what it therefore left out. */
    uint64_t late_ns_max;
    uint64_t skipped_ns;
};

struct snapshot snapshot(const struct bench *bench);

/* Handles what has arrived, waiting for it no longer than this, then what is due by time. */
void pump(struct bench *bench, uint64_t wait_ns_max);

#endif
