#define _GNU_SOURCE
#include "broker_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Larger than any packet of ours; also the most that one recv() takes. */
#define IN_CAPACITY (1u << 20)
#define OUT_CAPACITY_FIRST 65536u
/* Downlink bursts must wait in the kernel, not be dropped by the broker. */
#define SOCKET_BUFFER_BYTES (8 << 20)
/* After this many full reads the other sockets have their turn. */
#define READS_PER_TURN_MAX 8

#define REMAINING_LENGTH_OCTETS_MAX 4
#define PROPERTY_RECEIVE_MAXIMUM 0x21

enum packet_kind {
    PACKET_CONNECT = 1, PACKET_CONNACK = 2, PACKET_PUBLISH = 3, PACKET_PUBACK = 4,
    PACKET_PUBREC = 5, PACKET_PUBREL = 6, PACKET_PUBCOMP = 7, PACKET_SUBSCRIBE = 8,
    PACKET_SUBACK = 9, PACKET_DISCONNECT = 14,
};

/* ---- writing ---- */

static void append(struct broker_link *link, const void *bytes, size_t count)
{
    if (link->out_bytes + count > link->out_capacity) {
        size_t capacity = (link->out_bytes + count) * 2 + OUT_CAPACITY_FIRST;
        link->out = grow(link->out, link->out_capacity, capacity, 1);
        link->out_capacity = capacity;
    }
    memcpy(link->out + link->out_bytes, bytes, count);
    link->out_bytes += count;
}

static size_t write_variable_length(uint8_t *to, size_t value)
{
    size_t octets = 0;
    do {
        uint8_t low = value & 0x7f;
        value >>= 7;
        to[octets++] = low | (value ? 0x80 : 0);
    } while (value);
    return octets;
}

static void append_header(struct broker_link *link, uint8_t first, size_t remaining)
{
    uint8_t header[1 + REMAINING_LENGTH_OCTETS_MAX] = {first};
    append(link, header, 1 + write_variable_length(header + 1, remaining));
}

static void append_string(struct broker_link *link, const char *text)
{
    uint8_t length[2];
    put16(length, (uint16_t)strlen(text));
    append(link, length, sizeof length);
    append(link, text, strlen(text));
}

static void append16(struct broker_link *link, uint16_t value)
{
    uint8_t bytes[2];
    put16(bytes, value);
    append(link, bytes, sizeof bytes);
}

/* MQTT 5 has a length of properties where 3.1.1 has nothing; ours are empty but for one. */
static void append_no_properties(struct broker_link *link)
{
    if (link->version_5)
        append(link, "\0", 1);
}

/* PUBACK, PUBREC, PUBREL, PUBCOMP: success, without properties, is two bytes in both versions. */
static void append_acknowledgement(struct broker_link *link, enum packet_kind kind, uint16_t id)
{
    uint8_t flags = kind == PACKET_PUBREL ? 0x02 : 0;
    append_header(link, (uint8_t)(kind << 4 | flags), 2);
    append16(link, id);
}

static void append_connect(struct broker_link *link)
{
    static const uint8_t session_expiry_an_hour[] = {5, 0x11, 0, 0, 0x0e, 0x10};
    uint8_t clean_start = link->keeps_session ? 0 : 0x02;
    uint8_t version_flags_and_keep_alive[4] = {link->version_5 ? 5 : 4, clean_start, 0, 0};
    size_t properties = link->keeps_session ? sizeof session_expiry_an_hour : link->version_5;
    append_header(link, PACKET_CONNECT << 4, 10 + properties + 2 + strlen(link->client_id));
    append_string(link, "MQTT");
    append(link, version_flags_and_keep_alive, sizeof version_flags_and_keep_alive);
    if (link->keeps_session)
        append(link, session_expiry_an_hour, sizeof session_expiry_an_hour);
    else
        append_no_properties(link);
    append_string(link, link->client_id);
}

static uint16_t next_packet_id(struct broker_link *link)
{
    link->packet_id = link->packet_id == UINT16_MAX ? 1 : (uint16_t)(link->packet_id + 1);
    return link->packet_id;
}

static void watch(struct broker_link *link, bool for_writing)
{
    struct epoll_event event = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0)};
    event.data.u64 = link->tag;
    if (epoll_ctl(link->epoll, EPOLL_CTL_MOD, link->socket, &event) != 0)
        fatal_errno("epoll_ctl");
}

/* What the kernel or the broker said; ends the run where a break is not expected. */
static void break_off(struct broker_link *link, const char *why)
{
    if (!link->keeps_session)
        fatal("the connection to the broker: %s", why);
    close(link->socket);
    link->socket = -1;
    link->is_broken = true;
    link->connected = link->subscribed = link->waits_to_write = false;
    link->in_bytes = link->out_bytes = 0;
}

void link_flush(struct broker_link *link)
{
    size_t done = 0;
    while (!link->is_broken && done < link->out_bytes) {
        ssize_t sent = send(link->socket, link->out + done, link->out_bytes - done,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            break_off(link, strerror(errno));
        if (sent <= 0)
            break;
        done += (size_t)sent;
    }
    if (link->is_broken)
        return;
    memmove(link->out, link->out + done, link->out_bytes - done);
    link->out_bytes -= done;
    if (link->waits_to_write != (link->out_bytes > 0)) {
        link->waits_to_write = link->out_bytes > 0;
        watch(link, link->waits_to_write);
    }
}

/* -1 when nobody listens there. */
static int connected_socket(int port)
{
    int one = 1;
    int buffer_bytes = SOCKET_BUFFER_BYTES;
    struct sockaddr_in broker = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    broker.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        fatal_errno("socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&broker, sizeof broker) != 0) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

bool link_open_again(struct broker_link *link)
{
    struct epoll_event event = {.events = EPOLLIN};
    event.data.u64 = link->tag;
    link->socket = connected_socket(link->port);
    if (link->socket < 0)
        return false;
    link->is_broken = false;
    link->receive_maximum = UINT16_MAX;
    if (epoll_ctl(link->epoll, EPOLL_CTL_ADD, link->socket, &event) != 0)
        fatal_errno("epoll_ctl");
    append_connect(link);
    link_flush(link);
    return true;
}

void link_open(struct broker_link *link, int port, const char *client_id)
{
    link->port = port;
    link->client_id = client_id;
    link->in = allocate(IN_CAPACITY, 1);
    if (!link_open_again(link))
        fatal("cannot connect to the broker on port %d: %s", port, strerror(errno));
}

void link_subscribe(struct broker_link *link, const char *filter, int qos)
{
    uint8_t options = (uint8_t)qos;
    append_header(link, PACKET_SUBSCRIBE << 4 | 0x02, 2 + link->version_5 + 2 + strlen(filter) + 1);
    append16(link, next_packet_id(link));
    append_no_properties(link);
    append_string(link, filter);
    append(link, &options, 1);
    link_flush(link);
}

unsigned link_room(const struct broker_link *link, int qos)
{
    if (qos == 0)
        return UINT32_MAX;
    return link->receive_maximum - link->in_flight;
}

uint16_t link_publish(struct broker_link *link, const char *topic, const uint8_t *payload,
                      size_t bytes, int qos)
{
    uint16_t id = 0;
    size_t remaining = 2 + strlen(topic) + (qos ? 2 : 0) + link->version_5 + bytes;
    append_header(link, (uint8_t)(PACKET_PUBLISH << 4 | qos << 1), remaining);
    append_string(link, topic);
    if (qos > 0) {
        id = next_packet_id(link);
        append16(link, id);
        link->in_flight++;
    }
    append_no_properties(link);
    append(link, payload, bytes);
    return id;
}

/* ---- reading ---- */

/* Returns the octets the number took, 0 when it is not complete. */
static size_t read_variable_length(const uint8_t *from, size_t bytes, size_t *value)
{
    *value = 0;
    for (size_t octet = 0; octet < bytes && octet < REMAINING_LENGTH_OCTETS_MAX; octet++) {
        *value |= (size_t)(from[octet] & 0x7f) << (7 * octet);
        if (!(from[octet] & 0x80))
            return octet + 1;
    }
    return 0;
}

/* How many bytes of value follow an MQTT 5 property of CONNACK. */
static size_t property_bytes(uint8_t property, const uint8_t *value, size_t bytes)
{
    switch (property) {
    case 0x11: case 0x27: return 4;                       /* session expiry, packet size */
    case 0x21: case 0x22: case 0x13: return 2;            /* maxima, server keep alive */
    case 0x24: case 0x25: case 0x28: case 0x29: case 0x2a: return 1; /* what is available */
    case 0x26:                                            /* user property: two strings */
        if (bytes < 2 || bytes < 4u + get16(value))
            return bytes;
        return 4u + get16(value) + get16(value + 2 + get16(value));
    default:                                              /* all others: one string */
        return bytes < 2 ? bytes : 2u + get16(value);
    }
}

static void read_connack(struct broker_link *link, const uint8_t *body, size_t bytes)
{
    size_t properties;
    if (bytes < 2 || body[1] != 0)
        fatal("the broker refused our connection with code %d", bytes < 2 ? -1 : body[1]);
    link->connected = true;
    if (!link->version_5)
        return;
    size_t at = 2 + read_variable_length(body + 2, bytes - 2, &properties);
    while (at + 1 < bytes) {
        uint8_t property = body[at++];
        if (property == PROPERTY_RECEIVE_MAXIMUM && at + 2 <= bytes)
            link->receive_maximum = get16(body + at);
        at += property_bytes(property, body + at, bytes - at);
    }
}

static void read_publish(struct broker_link *link, uint8_t first, const uint8_t *body, size_t bytes)
{
    int qos = first >> 1 & 3;
    size_t properties = 0;
    size_t at = bytes < 2 ? bytes + 1 : 2u + get16(body);
    size_t id_at = at;
    if (qos > 0)
        at += 2;
    if (link->version_5 && at < bytes)
        at += read_variable_length(body + at, bytes - at, &properties) + properties;
    if (at > bytes)
        fatal("the broker sent a PUBLISH that is cut short");
    if (qos > 0)
        append_acknowledgement(link, qos == 1 ? PACKET_PUBACK : PACKET_PUBREC, get16(body + id_at));
    link->on_payload(link->context, body + at, bytes - at);
}

/* MQTT 5 has a reason code behind the packet id where the broker refuses a message. */
static void refuse_failure(const uint8_t *body, size_t bytes)
{
    if (bytes > 2 && body[2] >= 0x80)
        fatal("the broker refused our message with code %d", body[2]);
}

static void settle(struct broker_link *link, uint16_t packet_id)
{
    link->in_flight--;
    link->on_settled(link->context, packet_id);
}

static void read_packet(struct broker_link *link, uint8_t first, const uint8_t *body, size_t bytes)
{
    if (bytes < 2 && first >> 4 != PACKET_DISCONNECT)
        fatal("the broker sent a packet of type %d that is cut short", first >> 4);
    switch (first >> 4) {
    case PACKET_CONNACK: read_connack(link, body, bytes); break;
    case PACKET_SUBACK:
        if (body[bytes - 1] >= 0x80)
            fatal("the broker refused our subscription with code %d", body[bytes - 1]);
        link->subscribed = true;
        break;
    case PACKET_PUBLISH: read_publish(link, first, body, bytes); break;
    case PACKET_PUBACK:
    case PACKET_PUBCOMP:
        refuse_failure(body, bytes);
        settle(link, get16(body));
        break;
    case PACKET_PUBREC:
        refuse_failure(body, bytes);
        append_acknowledgement(link, PACKET_PUBREL, get16(body));
        break;
    case PACKET_PUBREL: append_acknowledgement(link, PACKET_PUBCOMP, get16(body)); break;
    case PACKET_DISCONNECT:
        if (!link->keeps_session)
            fatal("the broker disconnected us with code %d", bytes ? *body : 0);
        break; /* it is about to close */
    default: fatal("the broker sent a packet of type %d", first >> 4);
    }
}

/* Returns how much of the buffer was whole packets. */
static size_t read_packets(struct broker_link *link)
{
    size_t at = 0;
    size_t remaining;
    while (link->in_bytes - at >= 2) {
        const uint8_t *packet = link->in + at;
        size_t octets = read_variable_length(packet + 1, link->in_bytes - at - 1, &remaining);
        if (octets > 0 && 1 + octets + remaining > IN_CAPACITY)
            fatal("the broker sent a packet of %zu bytes", remaining);
        if (octets == 0 || link->in_bytes - at < 1 + octets + remaining)
            break;
        read_packet(link, packet[0], packet + 1 + octets, remaining);
        at += 1 + octets + remaining;
    }
    return at;
}

void link_read(struct broker_link *link)
{
    int one = 1;
    for (int reads = 0; reads < READS_PER_TURN_MAX && !link->is_broken; reads++) {
        size_t room = IN_CAPACITY - link->in_bytes;
        ssize_t got = recv(link->socket, link->in + link->in_bytes, room, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            break_off(link, got < 0 ? strerror(errno) : "the broker closed it");
            return;
        }
        setsockopt(link->socket, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
        link->in_bytes += (size_t)got;
        size_t done = read_packets(link);
        memmove(link->in, link->in + done, link->in_bytes - done);
        link->in_bytes -= done;
    }
    link_flush(link);
}
