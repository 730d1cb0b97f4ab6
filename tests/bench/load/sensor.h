/* A simulated sensor: one UDP socket, one MQTT-SN client, one message under way at QoS 1 and 2.
 *
 *   NEW -> CONNECTING -> REGISTERING (pub) | SUBSCRIBING (sub) | FALLING_ASLEEP (storm) -> READY
 *
 * Any of them -> DEAD when refused, disconnected or out of retries; READY -> CLOSED with --close.
 */
#ifndef LOAD_SENSOR_H
#define LOAD_SENSOR_H

#include "base.h"

struct bench;

enum sensor_state {
    SENSOR_NEW, SENSOR_CONNECTING, SENSOR_REGISTERING, SENSOR_SUBSCRIBING, SENSOR_FALLING_ASLEEP,
    SENSOR_READY, SENSOR_DEAD, SENSOR_CLOSED,
};

enum awaited {
    AWAITS_NOTHING, AWAITS_FIRST_ANSWER /* PUBACK or PUBREC */, AWAITS_PUBCOMP,
    AWAITS_SLEEP /* DISCONNECT */, AWAITS_PINGRESP,
};

struct sensor {
    int socket;
    enum sensor_state state;
    enum awaited awaited;
    unsigned tries;
    uint16_t topic_id;
    uint16_t message_id;
    /* QoS 2 downwards: the message id between PUBLISH and PUBREL; 0 is none. */
    uint16_t receiving_id;
    bool warmed_up;
    uint64_t sequence;
    uint64_t sent_at;
    uint64_t connect_began;
    uint64_t deadline;
};

struct sensor_counts {
    uint64_t connecting;
    uint64_t ready;
    uint64_t refused;
    uint64_t timed_out;
    uint64_t connect_retries;
    uint64_t publish_retries;
    /* Without acknowledgement after all retries. */
    uint64_t given_up;
    /* PUBACK with a return code other than accepted. */
    uint64_t rejected;
    uint64_t disconnected;
    uint64_t malformed;
    /* The kernel took no datagram: our own send buffer was full. */
    uint64_t send_failed;
};

struct idle_ring {
    unsigned *members;
    unsigned capacity;
    unsigned first;
    unsigned count;
};

void sensors_open(struct bench *bench);
void sensor_open_socket(struct bench *bench, unsigned index);

/* CONNECT; with QoS -1, which has no connection, the sensor is ready at once. */
void sensor_begin(struct bench *bench, unsigned index);
void sensor_publish(struct bench *bench, unsigned index);
/* QoS 0 (or -1), in no count: shows that the way to the broker is open. */
void sensor_publish_warm_up(struct bench *bench, unsigned index);
/* DISCONNECT with a duration, from a sensor that is ready. */
void sensor_fall_asleep(struct bench *bench, unsigned index);
/* PINGREQ of a sleeper: it is awake until PINGRESP. */
void sensor_wake(struct bench *bench, unsigned index);
/* Reads what the socket has. */
void sensor_receive(struct bench *bench, unsigned index);
/* Retransmits what is overdue, of all sensors. */
void sensors_handle_time(struct bench *bench);

void idle_put(struct idle_ring *ring, unsigned index);
unsigned idle_take(struct idle_ring *ring);

/* The topic of a client, by name. */
#define TOPIC_BYTES_MAX 32
void topic_of(const struct bench *bench, unsigned index, char *name);

#endif
