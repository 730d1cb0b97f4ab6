#include "sensor_parts.h"

#include "bench.h"

#include <string.h>

/* ---- publishing ---- */

static uint8_t topic_type(const struct options *options)
{
    switch (options->topic) {
    case TOPIC_PREDEFINED: return FLAG_TOPIC_PREDEFINED;
    case TOPIC_SHORT: return FLAG_TOPIC_SHORT;
    default: return FLAG_TOPIC_NAME;
    }
}

static uint16_t topic_field(const struct options *options, const struct sensor *sensor)
{
    switch (options->topic) {
    case TOPIC_PREDEFINED: return options->predefined_id;
    case TOPIC_SHORT: return get16((const uint8_t *)options->short_name);
    default: return sensor->topic_id;
    }
}

static void send_publish(struct bench *bench, struct sensor *sensor, uint8_t flags,
                         uint64_t sequence, uint64_t sent_at)
{
    static uint8_t frame[FRAME_BYTES_MAX];
    struct message_stamp stamp = {sensor_index(bench, sensor), sequence, sent_at};
    size_t payload_bytes = bench->options.payload_bytes;
    bool numbered = (flags & FLAG_QOS) != 0 && qos_of(flags) > 0;
    size_t at = frame_publish_head(frame, flags | topic_type(&bench->options),
                                   topic_field(&bench->options, sensor),
                                   numbered ? sensor->message_id : 0, payload_bytes);
    stamp_write(&bench->ledger, frame + at, &stamp);
    memset(frame + at + PAYLOAD_BYTES_MIN, 'x', payload_bytes - PAYLOAD_BYTES_MIN);
    send_frame(bench, sensor, frame, at + payload_bytes);
}

void sensor_publish(struct bench *bench, unsigned index)
{
    struct sensor *sensor = &bench->sensors[index];
    sensor->sequence = ledger_sent(&bench->ledger);
    sensor->sent_at = now_ns();
    if (bench->options.qos > 0) {
        next_message_id(sensor);
        sensor->awaited = AWAITS_FIRST_ANSWER;
        sensor->tries = 0;
        bench->unacknowledged++;
        wait_for_answer(bench, sensor);
    }
    send_publish(bench, sensor, qos_flag(bench->options.qos), sensor->sequence, sensor->sent_at);
}

void sensor_publish_warm_up(struct bench *bench, unsigned index)
{
    int qos = bench->options.qos < 0 ? -1 : 0;
    send_publish(bench, &bench->sensors[index], qos_flag(qos), SEQUENCE_WARM_UP, now_ns());
}

static void send_pubrel(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[8];
    send_frame(bench, sensor, frame, frame_handshake(frame, FRAME_PUBREL, sensor->message_id));
}

static void finish_message(struct bench *bench, struct sensor *sensor)
{
    sensor->awaited = AWAITS_NOTHING;
    bench->unacknowledged--;
    bench->last_arrival = bench->now;
    if (bench->running)
        idle_put(&bench->idle, sensor_index(bench, sensor));
}

static bool was_sent_meanwhile(const struct outage *outage, uint64_t sent_at)
{
    bool since = outage->away_at > 0 && sent_at >= outage->away_at;
    return since && (outage->back_at == 0 || sent_at < outage->back_at);
}

static void acknowledge_message(struct bench *bench, struct sensor *sensor)
{
    ledger_acknowledged(&bench->ledger, sensor->sequence);
    histogram_add(&bench->acknowledging, bench->now - sensor->sent_at);
    if (was_sent_meanwhile(&bench->outage, sensor->sent_at))
        histogram_add(&bench->outage.acknowledging, bench->now - sensor->sent_at);
    finish_message(bench, sensor);
}

void after_puback(struct bench *bench, struct sensor *sensor, const uint8_t *fields)
{
    bool accepted = fields[4] == 0;
    bool expected = sensor->awaited == AWAITS_FIRST_ANSWER
                    && get16(fields + 2) == sensor->message_id;
    if (!accepted)
        bench->counts.rejected++;
    if (!expected)
        return;
    if (!accepted)
        finish_message(bench, sensor);
    else if (bench->options.qos == 1)
        acknowledge_message(bench, sensor);
}

void after_pubrec(struct bench *bench, struct sensor *sensor, uint16_t message_id)
{
    if (bench->options.qos != 2 || message_id != sensor->message_id)
        return;
    if (sensor->awaited == AWAITS_NOTHING)
        return;
    sensor->awaited = AWAITS_PUBCOMP;
    sensor->tries = 0;
    wait_for_answer(bench, sensor);
    send_pubrel(bench, sensor);
}

void after_pubcomp(struct bench *bench, struct sensor *sensor, uint16_t message_id)
{
    if (sensor->awaited == AWAITS_PUBCOMP && message_id == sensor->message_id)
        acknowledge_message(bench, sensor);
}

/* ---- sleeping ---- */

static void say_as_awaited(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[32];
    char client_id[CLIENT_ID_BYTES_MAX + 1];
    if (sensor->awaited == AWAITS_SLEEP) {
        send_frame(bench, sensor, frame, frame_disconnect(frame, bench->options.sleep_s));
    } else {
        client_id_of(bench, sensor, client_id);
        send_frame(bench, sensor, frame, frame_pingreq(frame, client_id));
    }
}

static void say(struct bench *bench, unsigned index, enum awaited awaited)
{
    struct sensor *sensor = &bench->sensors[index];
    if (sensor->state != SENSOR_READY || sensor->awaited != AWAITS_NOTHING)
        return;
    bench->now = now_ns();
    sensor->sent_at = bench->now;
    sensor->awaited = awaited;
    sensor->tries = 0;
    bench->unacknowledged++;
    wait_for_answer(bench, sensor);
    say_as_awaited(bench, sensor);
}

void sensor_fall_asleep(struct bench *bench, unsigned index)
{
    say(bench, index, AWAITS_SLEEP);
}

void sensor_wake(struct bench *bench, unsigned index)
{
    say(bench, index, AWAITS_PINGRESP);
}

void after_sleep(struct bench *bench, struct sensor *sensor)
{
    finish_message(bench, sensor);
}

void after_pingresp(struct bench *bench, struct sensor *sensor)
{
    if (sensor->awaited != AWAITS_PINGRESP)
        return;
    histogram_add(&bench->acknowledging, bench->now - sensor->sent_at);
    finish_message(bench, sensor);
}

void retry_message(struct bench *bench, struct sensor *sensor)
{
    if (sensor->tries++ == bench->options.retries_max) {
        bench->counts.given_up++;
        finish_message(bench, sensor);
        return;
    }
    bench->counts.publish_retries++;
    wait_for_answer(bench, sensor);
    if (sensor->awaited == AWAITS_PUBCOMP)
        send_pubrel(bench, sensor);
    else if (sensor->awaited != AWAITS_FIRST_ANSWER)
        say_as_awaited(bench, sensor);
    else
        send_publish(bench, sensor, qos_flag(bench->options.qos) | FLAG_DUP, sensor->sequence,
                     sensor->sent_at);
}

/* ---- being delivered to ---- */

static void count_delivery(struct bench *bench, struct sensor *sensor, const uint8_t *payload,
                           size_t bytes)
{
    struct message_stamp stamp;
    unsigned index = sensor_index(bench, sensor);
    bool own = bench->options.topic == TOPIC_OWN;
    if (!stamp_read(&bench->ledger, payload, bytes, &stamp))
        return;
    bench->last_arrival = bench->now;
    if (stamp.sequence == SEQUENCE_WARM_UP) {
        bench->warmed_up += !sensor->warmed_up;
        sensor->warmed_up = true;
    } else if (own && stamp.client != index) {
        bench->ledger.foreign++;
    } else {
        uint64_t row = own ? stamp.sequence / bench->options.clients : stamp.sequence;
        if (ledger_arrived_down(&bench->ledger, index, row, &stamp))
            histogram_add(&bench->end_to_end, bench->now - stamp.sent_at);
    }
}

void after_publish(struct bench *bench, struct sensor *sensor, const struct frame *publish)
{
    uint8_t answer[8];
    uint16_t topic_id = get16(publish->fields + 1);
    uint16_t message_id = get16(publish->fields + 3);
    int qos = qos_of(publish->fields[0]);
    bool repeated = false;
    if (qos == 1) {
        send_frame(bench, sensor, answer, frame_answer(answer, FRAME_PUBACK, topic_id, message_id));
    } else if (qos == 2) {
        repeated = sensor->receiving_id == message_id;
        sensor->receiving_id = message_id;
        send_frame(bench, sensor, answer, frame_handshake(answer, FRAME_PUBREC, message_id));
    }
    if (!repeated)
        count_delivery(bench, sensor, publish->fields + PUBLISH_FIELDS_BYTES,
                       publish->fields_bytes - PUBLISH_FIELDS_BYTES);
}

void after_pubrel(struct bench *bench, struct sensor *sensor, uint16_t message_id)
{
    uint8_t answer[8];
    sensor->receiving_id = 0;
    send_frame(bench, sensor, answer, frame_handshake(answer, FRAME_PUBCOMP, message_id));
}
