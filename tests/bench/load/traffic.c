#define _GNU_SOURCE
#include "traffic.h"

#include "frames.h"
#include "pace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BROKER_TIMEOUT_S 5
#define WARM_UP_TIMEOUT_S 10
#define WARM_UP_REPEAT_NS (200 * NS_PER_MS)
#define CONNECT_BURST_MAX 64
/* The drain ends after this long without an arrival. */
#define QUIET_NS (600 * NS_PER_MS)
/* Sooner than any gateway, so that its backlog finds us there; what does not, the session keeps. */
#define OPEN_AGAIN_AFTER_NS (2 * NS_PER_MS)

/* ---- the broker's side ---- */

/* Only the last arrival of the backlog tells when it was drained. */
static void note_backlog(struct bench *bench, const struct message_stamp *stamp)
{
    struct outage *outage = &bench->outage;
    if (outage->back_at == 0 || stamp->sent_at >= outage->back_at)
        return;
    if (outage->backlog++ == 0)
        outage->drain_began = bench->now;
    outage->drained_at = bench->now;
}

static void on_message_up(void *context, const uint8_t *payload, size_t bytes)
{
    struct bench *bench = context;
    struct message_stamp stamp;
    bench->now = now_ns();
    if (!stamp_read(&bench->ledger, payload, bytes, &stamp))
        return;
    bench->last_arrival = bench->now;
    if (stamp.sequence == SEQUENCE_WARM_UP)
        bench->warmed_up = bench->options.clients;
    else if (ledger_arrived_up(&bench->ledger, &stamp)) {
        histogram_add(&bench->end_to_end, bench->now - stamp.sent_at);
        note_backlog(bench, &stamp);
    }
}

static void on_message_ignored(void *context, const uint8_t *payload, size_t bytes)
{
    (void)context;
    (void)payload;
    (void)bytes;
}

/* Of `direct` only: the yardstick's publisher has its times by packet id. */
static uint64_t direct_sent_at[UINT16_MAX + 1];
static uint64_t direct_sequence[UINT16_MAX + 1];

static void on_settled(void *context, uint16_t packet_id)
{
    struct bench *bench = context;
    if (bench->options.mode != MODE_DIRECT)
        return;
    bench->now = now_ns();
    bench->last_arrival = bench->now;
    bench->unacknowledged--;
    ledger_acknowledged(&bench->ledger, direct_sequence[packet_id]);
    histogram_add(&bench->acknowledging, bench->now - direct_sent_at[packet_id]);
}

static void open_link(struct bench *bench, struct broker_link *link, uint64_t tag,
                      const char *role, payload_listener *on_payload)
{
    char *client_id = allocate(CLIENT_ID_BYTES_MAX + 1, 1);
    uint64_t give_up_at = now_ns() + BROKER_TIMEOUT_S * NS_PER_S;
    snprintf(client_id, CLIENT_ID_BYTES_MAX + 1, "load-%s-%d", role, (int)getpid());
    link->keeps_session = bench->options.broker_returns;
    link->epoll = bench->epoll;
    link->tag = tag;
    link->version_5 = bench->options.mqtt_version == 5;
    link->on_payload = on_payload;
    link->on_settled = on_settled;
    link->context = bench;
    link_open(link, bench->options.broker_port, client_id);
    while (!link->connected && now_ns() < give_up_at)
        pump(bench, NS_PER_MS);
    if (!link->connected)
        fatal("the broker did not answer CONNECT in %d s", BROKER_TIMEOUT_S);
}

static void subscribe(struct bench *bench, const char *filter)
{
    uint64_t give_up_at = now_ns() + BROKER_TIMEOUT_S * NS_PER_S;
    link_subscribe(&bench->subscriber, filter, bench->options.subscription_qos);
    while (!bench->subscriber.subscribed && now_ns() < give_up_at)
        pump(bench, NS_PER_MS);
    if (!bench->subscriber.subscribed)
        fatal("the broker did not answer SUBSCRIBE in %d s", BROKER_TIMEOUT_S);
}

static const char *filter_of(const struct options *options)
{
    switch (options->topic) {
    case TOPIC_PREDEFINED: return "#"; /* its name is known to the gateway only */
    case TOPIC_SHORT: return options->short_name;
    default: return "load/#";
    }
}

void open_broker_side(struct bench *bench)
{
    enum mode mode = bench->options.mode;
    if (mode == MODE_PUB || mode == MODE_DIRECT) {
        open_link(bench, &bench->subscriber, TAG_SUBSCRIBER, "sub", on_message_up);
        subscribe(bench, filter_of(&bench->options));
    }
    if (mode == MODE_SUB || mode == MODE_WAKE || mode == MODE_DIRECT)
        open_link(bench, &bench->publisher, TAG_PUBLISHER, "pub", on_message_ignored);
}

/* ---- connecting ---- */

static bool all_decided(const struct bench *bench)
{
    const struct sensor_counts *counts = &bench->counts;
    return counts->ready + counts->refused + counts->timed_out >= bench->options.clients;
}

static unsigned begin_some(struct bench *bench, unsigned next)
{
    unsigned window = bench->options.connect_window;
    for (unsigned count = 0; count < CONNECT_BURST_MAX; count++) {
        bool full = window > 0 && bench->counts.connecting >= window;
        if (next == bench->options.clients || full)
            break;
        sensor_begin(bench, next++);
    }
    return next;
}

void connect_sensors(struct bench *bench)
{
    unsigned next = 0;
    uint64_t ready_before = 0;
    bool all_at_once = bench->options.connect_window == 0 && !bench->options.close_when_ready;
    for (unsigned index = 0; all_at_once && index < bench->options.clients; index++)
        sensor_open_socket(bench, index);
    uint64_t began = now_ns();
    uint64_t latest = began;
    uint64_t give_up_at = began + ns_from_seconds(bench->options.connect_timeout_s);
    while (!all_decided(bench) && bench->now < give_up_at) {
        unsigned next_before = next;
        next = begin_some(bench, next);
        pump(bench, next > next_before ? 0 : WAIT_NS_MAX);
        if (bench->counts.ready != ready_before)
            latest = bench->now;
        ready_before = bench->counts.ready;
    }
    bench->connect_s = (double)(latest - began) / (double)NS_PER_S;
}

/* ---- putting messages on their way ---- */

static void publish_downwards(struct bench *bench, uint64_t sequence, unsigned index)
{
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    char topic[TOPIC_BYTES_MAX];
    struct message_stamp stamp = {index, sequence, now_ns()};
    topic_of(bench, index, topic);
    memset(payload, 'x', bench->options.payload_bytes);
    stamp_write(&bench->ledger, payload, &stamp);
    uint16_t id = link_publish(&bench->publisher, topic, payload, bench->options.payload_bytes,
                               bench->options.qos);
    if (bench->options.mode == MODE_DIRECT && bench->options.qos > 0) {
        direct_sent_at[id] = stamp.sent_at;
        direct_sequence[id] = sequence;
        bench->unacknowledged++;
    }
}

void publish_through_broker(struct bench *bench, uint64_t count)
{
    unsigned room = link_room(&bench->publisher, bench->options.qos);
    for (uint64_t done = 0; done < count && done < room; done++) {
        uint64_t sequence = ledger_sent(&bench->ledger);
        publish_downwards(bench, sequence, (unsigned)(sequence % bench->options.clients));
    }
    link_flush(&bench->publisher);
}

static void publish_from_idle_sensors(struct bench *bench, uint64_t count)
{
    for (uint64_t done = 0; done < count && bench->idle.count > 0; done++) {
        unsigned index = idle_take(&bench->idle);
        if (bench->sensors[index].state == SENSOR_READY)
            sensor_publish(bench, index);
    }
}

static void publish_in_turn(struct bench *bench, uint64_t count)
{
    static unsigned next;
    unsigned passed_over = 0;
    for (uint64_t done = 0; done < count && passed_over < bench->options.clients;) {
        unsigned index = next++ % bench->options.clients;
        if (bench->sensors[index].state != SENSOR_READY) {
            passed_over++;
            continue;
        }
        sensor_publish(bench, index);
        passed_over = 0;
        done++;
    }
}

static void publish_some(struct bench *bench, uint64_t count)
{
    if (bench->options.mode != MODE_PUB)
        publish_through_broker(bench, count);
    else if (bench->options.qos > 0)
        publish_from_idle_sensors(bench, count);
    else
        publish_in_turn(bench, count);
}

/* ---- an outage ---- */

void watch_outage(struct bench *bench)
{
    struct broker_link *link = &bench->subscriber;
    struct outage *outage = &bench->outage;
    if (outage->away_at == 0 && link->is_broken)
        outage->away_at = bench->now;
    if (link->is_broken && bench->now >= bench->next_open_at) {
        bench->next_open_at = bench->now + OPEN_AGAIN_AFTER_NS;
        if (link_open_again(link))
            link_subscribe(link, filter_of(&bench->options), bench->options.subscription_qos);
    }
    if (outage->away_at > 0 && outage->back_at == 0 && link->subscribed)
        outage->back_at = bench->now;
}

/* ---- the run ---- */

static void warm_up_upwards(struct bench *bench)
{
    for (unsigned index = 0; index < bench->options.clients; index++) {
        if (bench->sensors[index].state == SENSOR_READY) {
            sensor_publish_warm_up(bench, index);
            return;
        }
    }
}

static void warm_up_downwards(struct bench *bench, uint64_t give_up_at)
{
    bool own = bench->options.mode != MODE_DIRECT && bench->options.topic == TOPIC_OWN;
    unsigned messages = own ? bench->options.clients : 1;
    for (unsigned index = 0; index < messages; index++) {
        if (own && bench->sensors[index].warmed_up)
            continue;
        while (link_room(&bench->publisher, bench->options.qos) == 0 && bench->now < give_up_at) {
            link_flush(&bench->publisher);
            pump(bench, WAIT_NS_MAX);
        }
        publish_downwards(bench, SEQUENCE_WARM_UP, index);
    }
    link_flush(&bench->publisher);
}

void warm_up(struct bench *bench)
{
    uint64_t give_up_at = bench->now + WARM_UP_TIMEOUT_S * NS_PER_S;
    uint64_t repeat_at = 0;
    bool down = bench->options.mode == MODE_SUB || bench->options.mode == MODE_WAKE;
    unsigned wanted = down ? (unsigned)bench->counts.ready : 1;
    if (bench->counts.ready == 0 && bench->options.mode != MODE_DIRECT)
        fatal("no client could connect (%llu refused)", (unsigned long long)bench->counts.refused);
    while (bench->warmed_up < wanted && bench->now < give_up_at) {
        if (bench->now >= repeat_at) {
            if (bench->options.mode == MODE_PUB)
                warm_up_upwards(bench);
            else
                warm_up_downwards(bench, give_up_at);
            repeat_at = bench->now + WARM_UP_REPEAT_NS;
        }
        pump(bench, WAIT_NS_MAX);
    }
    if (bench->warmed_up < wanted)
        fatal("%u of %u: no message passed through in %d s", wanted - bench->warmed_up, wanted,
              WARM_UP_TIMEOUT_S);
    while (bench->now - bench->last_arrival < QUIET_NS / 2)
        pump(bench, WAIT_NS_MAX);
}

static void drain(struct bench *bench)
{
    uint64_t expected = bench->ledger.sent * bench->deliveries_per_message;
    uint64_t give_up_at = bench->now + ns_from_seconds(bench->options.drain_s);
    while (bench->now < give_up_at) {
        bool complete = bench->ledger.received >= expected;
        bool quiet = bench->now > bench->last_arrival + QUIET_NS;
        if (bench->unacknowledged == 0 && (complete || quiet))
            return;
        pump(bench, WAIT_NS_MAX);
    }
}

void run_traffic(struct bench *bench)
{
    struct pace pace = {0};
    bool fan_out = bench->options.mode == MODE_SUB && bench->options.topic == TOPIC_SHARED;
    bench->deliveries_per_message = fan_out ? (unsigned)bench->counts.ready : 1;
    uint64_t began = now_ns();
    bench->now = began;
    bench->last_arrival = began;
    pace.schedule_began = began;
    pace.progressed_at = began;
    bench->running = true;
    if (bench->options.broker_returns)
        fputs("running\n", stderr);
    for (unsigned index = 0; waits_for_its_client(bench) && index < bench->options.clients; index++)
        idle_put(&bench->idle, index);
    uint64_t end = began + ns_from_seconds(bench->options.seconds);
    while (bench->now < end) {
        uint64_t count = messages_due(bench, &pace);
        publish_some(bench, count);
        pump(bench, count == BURST_MAX ? 0 : wait_until_due(bench, &pace));
    }
    bench->running = false;
    uint64_t stopped = bench->now;
    drain(bench);
    /* Stragglers count, so the time until the last of them does as well. */
    uint64_t finished = bench->last_arrival > stopped ? bench->last_arrival : stopped;
    bench->run_s = (double)(finished - began) / (double)NS_PER_S;
}

void stay_idle(struct bench *bench)
{
    uint64_t began = now_ns();
    uint64_t end = began + ns_from_seconds(bench->options.hold_s);
    while (bench->now < end)
        pump(bench, 5 * NS_PER_MS);
    bench->run_s = (double)(bench->now - began) / (double)NS_PER_S;
}
