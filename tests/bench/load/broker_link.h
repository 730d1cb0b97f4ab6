/* An MQTT client (3.1.1 or 5) towards the broker, as far as a measurement needs one.
 *
 * TCP_NODELAY here, and TCP_QUICKACK again after every read: mosquitto leaves Nagle's algorithm on,
 * and against a delayed ACK of ours its next small packet would wait 40 ms. That would be our step
 * in the latencies, not the gateway's.
 *
 * A connection that breaks ends the run, unless the link keeps its session: then it is made again.
 */
#ifndef LOAD_BROKER_LINK_H
#define LOAD_BROKER_LINK_H

#include "base.h"

/* Called with the payload of each message. */
typedef void payload_listener(void *context, const uint8_t *payload, size_t bytes);
/* Called when the broker has settled our QoS 1 or 2 message. */
typedef void settled_listener(void *context, uint16_t packet_id);

struct broker_link {
    int socket;
    int epoll;
    uint64_t tag;
    bool version_5;
    bool connected;
    bool subscribed;
    /* Asked for before link_open(): the broker keeps our session, and may go away and return. */
    bool keeps_session;
    bool is_broken;
    int port;
    const char *client_id;
    /* The broker's Receive Maximum (MQTT 5); without one, 65,535. */
    unsigned receive_maximum;
    unsigned in_flight;
    uint16_t packet_id;
    uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
    size_t out_capacity;
    bool waits_to_write;
    payload_listener *on_payload;
    settled_listener *on_settled;
    void *context;
};

/* Connects and sends CONNECT; `connected` becomes true in link_read(). */
void link_open(struct broker_link *link, int port, const char *client_id);
/* A broken link: tries to connect once, as link_open() does; true if the broker was there. */
bool link_open_again(struct broker_link *link);
void link_subscribe(struct broker_link *link, const char *filter, int qos);
/* How many more messages of this QoS the broker takes now. */
unsigned link_room(const struct broker_link *link, int qos);
/* Buffered until link_flush(). Returns the packet id, 0 at QoS 0. */
uint16_t link_publish(struct broker_link *link, const char *topic, const uint8_t *payload,
                      size_t bytes, int qos);
void link_flush(struct broker_link *link);
/* Handles everything that has arrived. */
void link_read(struct broker_link *link);

#endif
