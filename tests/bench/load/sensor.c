#define _GNU_SOURCE
#include "sensor_parts.h"

#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket with much to read must not keep the others waiting. */
#define DATAGRAMS_PER_TURN_MAX 64
/* Source addresses 127.1.0.1 and up hold this many clients each: one address has about 28,000
 * ephemeral ports. */
#define CLIENTS_PER_ADDRESS 8000
#define FIRST_SOURCE_ADDRESS 0x7f010001u
/* Deadlines are seconds; to look at all clients more often than this would only cost CPU. */
#define TIMER_SCAN_NS (20 * NS_PER_MS)

/* ---- names and sockets ---- */

unsigned sensor_index(const struct bench *bench, const struct sensor *sensor)
{
    return (unsigned)(sensor - bench->sensors);
}

void client_id_of(const struct bench *bench, const struct sensor *sensor, char *client_id)
{
    snprintf(client_id, CLIENT_ID_BYTES_MAX + 1, "load-%u", sensor_index(bench, sensor));
}

void topic_of(const struct bench *bench, unsigned index, char *name)
{
    if (bench->options.topic == TOPIC_SHARED)
        snprintf(name, TOPIC_BYTES_MAX, "load/all");
    else
        snprintf(name, TOPIC_BYTES_MAX, "load/%u", index);
}

void sensors_open(struct bench *bench)
{
    unsigned clients = bench->options.clients;
    bench->sensors = allocate(clients, sizeof *bench->sensors);
    bench->idle.members = allocate(clients, sizeof *bench->idle.members);
    bench->idle.capacity = clients;
    for (unsigned index = 0; index < clients; index++)
        bench->sensors[index].socket = -1;
}

static void bind_to_own_address(int fd, unsigned index)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr = htonl(FIRST_SOURCE_ADDRESS + (index / CLIENTS_PER_ADDRESS << 8));
    if (bind(fd, (struct sockaddr *)&source, sizeof source) != 0)
        fatal_errno("bind of a client's socket");
}

void sensor_open_socket(struct bench *bench, unsigned index)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_in gateway = {.sin_family = AF_INET};
    gateway.sin_port = htons((uint16_t)bench->options.port);
    if (inet_pton(AF_INET, bench->options.host, &gateway.sin_addr) != 1)
        fatal("--host must be an IPv4 address, not %s", bench->options.host);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd < 0)
        fatal_errno("socket of a client (see ulimit -n, or --close)");
    if (ntohl(gateway.sin_addr.s_addr) >> 24 == 127)
        bind_to_own_address(fd, index);
    if (connect(fd, (struct sockaddr *)&gateway, sizeof gateway) != 0)
        fatal_errno("connect of a client's socket");
    event.data.u64 = index;
    if (epoll_ctl(bench->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fatal_errno("epoll_ctl");
    bench->sensors[index].socket = fd;
}

void idle_put(struct idle_ring *ring, unsigned index)
{
    ring->members[(ring->first + ring->count) % ring->capacity] = index;
    ring->count++;
}

unsigned idle_take(struct idle_ring *ring)
{
    unsigned index = ring->members[ring->first];
    ring->first = (ring->first + 1) % ring->capacity;
    ring->count--;
    return index;
}

/* ---- sending ---- */

void send_frame(struct bench *bench, const struct sensor *sensor, const uint8_t *frame,
                size_t bytes)
{
    if (send(sensor->socket, frame, bytes, MSG_DONTWAIT) != (ssize_t)bytes)
        bench->counts.send_failed++;
}

void wait_for_answer(struct bench *bench, struct sensor *sensor)
{
    sensor->deadline = bench->now + ns_from_seconds(bench->options.retry_after_s);
}

uint16_t next_message_id(struct sensor *sensor)
{
    sensor->message_id = sensor->message_id == UINT16_MAX ? 1 : (uint16_t)(sensor->message_id + 1);
    return sensor->message_id;
}

static void send_connect(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[64];
    char client_id[CLIENT_ID_BYTES_MAX + 1];
    client_id_of(bench, sensor, client_id);
    send_frame(bench, sensor, frame,
               frame_connect(frame, client_id, bench->options.keep_alive_s));
}

static void send_register(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[64];
    char topic[TOPIC_BYTES_MAX];
    topic_of(bench, sensor_index(bench, sensor), topic);
    send_frame(bench, sensor, frame, frame_register(frame, next_message_id(sensor), topic));
}

static void send_subscribe(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[64];
    char topic[TOPIC_BYTES_MAX];
    topic_of(bench, sensor_index(bench, sensor), topic);
    send_frame(bench, sensor, frame,
               frame_subscribe(frame, bench->options.qos, next_message_id(sensor), topic));
}

static void send_for_state(struct bench *bench, struct sensor *sensor)
{
    uint8_t frame[8];
    switch (sensor->state) {
    case SENSOR_CONNECTING: send_connect(bench, sensor); break;
    case SENSOR_REGISTERING: send_register(bench, sensor); break;
    case SENSOR_SUBSCRIBING: send_subscribe(bench, sensor); break;
    case SENSOR_FALLING_ASLEEP:
        send_frame(bench, sensor, frame, frame_disconnect(frame, bench->options.sleep_s));
        break;
    default: break;
    }
    wait_for_answer(bench, sensor);
}

/* ---- becoming ready ---- */

static void become_ready(struct bench *bench, struct sensor *sensor)
{
    sensor->state = SENSOR_READY;
    bench->counts.connecting--;
    bench->counts.ready++;
    histogram_add(&bench->connecting, bench->now - sensor->connect_began);
    if (bench->options.close_when_ready) {
        close(sensor->socket);
        sensor->socket = -1;
        sensor->state = SENSOR_CLOSED;
    }
}

static void enter(struct bench *bench, struct sensor *sensor, enum sensor_state state)
{
    sensor->state = state;
    sensor->tries = 0;
    send_for_state(bench, sensor);
}

void sensor_begin(struct bench *bench, unsigned index)
{
    struct sensor *sensor = &bench->sensors[index];
    if (sensor->socket < 0)
        sensor_open_socket(bench, index);
    sensor->connect_began = now_ns();
    bench->now = sensor->connect_began;
    bench->counts.connecting++;
    if (bench->options.qos < 0)
        become_ready(bench, sensor);
    else
        enter(bench, sensor, SENSOR_CONNECTING);
}

static void die_while_connecting(struct bench *bench, struct sensor *sensor, uint64_t *count)
{
    sensor->state = SENSOR_DEAD;
    bench->counts.connecting--;
    (*count)++;
}

static void after_connack(struct bench *bench, struct sensor *sensor, uint8_t return_code)
{
    const struct options *options = &bench->options;
    bool named = options->topic == TOPIC_OWN || options->topic == TOPIC_SHARED;
    if (sensor->state != SENSOR_CONNECTING)
        return;
    if (return_code != 0)
        die_while_connecting(bench, sensor, &bench->counts.refused);
    else if (options->mode == MODE_PUB && named)
        enter(bench, sensor, SENSOR_REGISTERING);
    else if (options->mode == MODE_SUB || options->mode == MODE_WAKE)
        enter(bench, sensor, SENSOR_SUBSCRIBING);
    else if (options->mode == MODE_STORM && options->sleep_s > 0)
        enter(bench, sensor, SENSOR_FALLING_ASLEEP);
    else
        become_ready(bench, sensor);
}

/* REGACK and SUBACK differ only in where their fields are. */
static void after_topic_id(struct bench *bench, struct sensor *sensor, enum sensor_state expected,
                           const uint8_t *topic_and_message_id, uint8_t return_code)
{
    if (sensor->state != expected || get16(topic_and_message_id + 2) != sensor->message_id)
        return;
    if (return_code != 0) {
        die_while_connecting(bench, sensor, &bench->counts.refused);
        return;
    }
    sensor->topic_id = get16(topic_and_message_id);
    become_ready(bench, sensor);
}

static void after_disconnect(struct bench *bench, struct sensor *sensor)
{
    if (sensor->state == SENSOR_FALLING_ASLEEP) {
        become_ready(bench, sensor);
        return;
    }
    if (sensor->state == SENSOR_READY && sensor->awaited == AWAITS_SLEEP) {
        after_sleep(bench, sensor);
        return;
    }
    bench->counts.disconnected++;
    if (sensor->state != SENSOR_READY)
        return;
    sensor->state = SENSOR_DEAD;
    bench->counts.ready--;
}

/* A gateway registers a topic before its first message to a wildcard subscriber. */
static void after_register(struct bench *bench, struct sensor *sensor, const uint8_t *fields)
{
    uint8_t answer[8];
    send_frame(bench, sensor, answer,
               frame_answer(answer, FRAME_REGACK, get16(fields), get16(fields + 2)));
}

/* ---- from the shell ---- */

static void handle_frame(struct bench *bench, struct sensor *sensor, const struct frame *frame)
{
    const uint8_t *fields = frame->fields;
    uint8_t answer[8];
    switch (frame->kind) {
    case FRAME_CONNACK: after_connack(bench, sensor, fields[0]); break;
    case FRAME_REGACK:
        after_topic_id(bench, sensor, SENSOR_REGISTERING, fields, fields[4]);
        break;
    case FRAME_SUBACK:
        after_topic_id(bench, sensor, SENSOR_SUBSCRIBING, fields + 1, fields[5]);
        break;
    case FRAME_DISCONNECT: after_disconnect(bench, sensor); break;
    case FRAME_PUBACK: after_puback(bench, sensor, fields); break;
    case FRAME_PUBREC: after_pubrec(bench, sensor, get16(fields)); break;
    case FRAME_PUBCOMP: after_pubcomp(bench, sensor, get16(fields)); break;
    case FRAME_PUBLISH: after_publish(bench, sensor, frame); break;
    case FRAME_PUBREL: after_pubrel(bench, sensor, get16(fields)); break;
    case FRAME_REGISTER: after_register(bench, sensor, fields); break;
    case FRAME_PINGRESP: after_pingresp(bench, sensor); break;
    case FRAME_PINGREQ: send_frame(bench, sensor, answer, frame_pingresp(answer)); break;
    default: break;
    }
}

void sensor_receive(struct bench *bench, unsigned index)
{
    static uint8_t datagram[FRAME_BYTES_MAX];
    struct sensor *sensor = &bench->sensors[index];
    struct frame frame;
    for (int count = 0; count < DATAGRAMS_PER_TURN_MAX && sensor->socket >= 0; count++) {
        ssize_t bytes = recv(sensor->socket, datagram, sizeof datagram, MSG_DONTWAIT);
        if (bytes < 0)
            return;
        bench->now = now_ns();
        if (frame_read(datagram, (size_t)bytes, &frame))
            handle_frame(bench, sensor, &frame);
        else
            bench->counts.malformed++;
    }
}

static void retry_while_connecting(struct bench *bench, struct sensor *sensor)
{
    if (sensor->tries++ == bench->options.retries_max) {
        die_while_connecting(bench, sensor, &bench->counts.timed_out);
        return;
    }
    bench->counts.connect_retries++;
    send_for_state(bench, sensor);
}

void sensors_handle_time(struct bench *bench)
{
    if (bench->now < bench->next_timer_scan)
        return;
    bench->next_timer_scan = bench->now + TIMER_SCAN_NS;
    for (unsigned index = 0; index < bench->options.clients; index++) {
        struct sensor *sensor = &bench->sensors[index];
        if (bench->now < sensor->deadline)
            continue;
        if (sensor->state >= SENSOR_CONNECTING && sensor->state <= SENSOR_FALLING_ASLEEP)
            retry_while_connecting(bench, sensor);
        else if (sensor->state == SENSOR_READY && sensor->awaited != AWAITS_NOTHING)
            retry_message(bench, sensor);
    }
}
