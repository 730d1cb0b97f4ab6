/* What the programs here have in common. Each is a DTLS client of another library, and nothing
 * else: descriptor 0 is a SOCK_SEQPACKET socket whose other end has the MQTT-SN client of the tests
 * (hil/rig/scripted_client.py). A message from there goes out as one record, what a record brings
 * goes back as one message. The first message back, "open", says that the handshake is complete; an
 * end of the other side is an end of the session.
 *
 *     PROGRAM PORT SUITE psk NAME KEY
 *     PROGRAM PORT SUITE cert AUTHORITY CERTIFICATE PRIVATE-KEY
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGES = 0, TICK_MS = 50, MESSAGE_BYTES_MAX = 16384, KEY_BYTES_MAX = 64 };

static const char *suite, *name;
static unsigned char key[KEY_BYTES_MAX], message[MESSAGE_BYTES_MAX];
static size_t key_bytes;
static const char *authority, *certificate, *private_key;
static struct sockaddr_in gateway;
static int udp;

static inline void fail(const char *what, long code) {
    fprintf(stderr, "%s: %ld\n", what, code);
    exit(1);
}

/* A datagram socket that is connected and never waits, and what the command line says. */
static inline void begin(int count, char **arguments) {
    int is_psk = count == 6 && !strcmp(arguments[3], "psk");
    if (!is_psk && !(count == 7 && !strcmp(arguments[3], "cert"))) fail("arguments", count);
    suite = arguments[2];
    if (is_psk) {
        name = arguments[4];
        for (const char *at = arguments[5]; at[0] && at[1] && key_bytes < KEY_BYTES_MAX; at += 2)
            if (sscanf(at, "%2hhx", &key[key_bytes++]) != 1) fail("key", 0);
    } else {
        authority = arguments[4];
        certificate = arguments[5];
        private_key = arguments[6];
    }
    gateway.sin_family = AF_INET;
    gateway.sin_port = htons(atoi(arguments[1]));
    gateway.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (connect(udp, (struct sockaddr *)&gateway, sizeof gateway)) fail("connect", udp);
}

/* Waits for a datagram, a tick at most; whether there is one. */
static inline int wait_for_datagram(void) {
    struct pollfd wanted = {.fd = udp, .events = POLLIN};
    return poll(&wanted, 1, TICK_MS) > 0;
}

/* Waits for either, a tick at most. The length of a message to send, 0 without one, -1 at the end. */
static inline int next_message(void) {
    struct pollfd wanted[] = {{.fd = MESSAGES, .events = POLLIN}, {.fd = udp, .events = POLLIN}};
    poll(wanted, 2, TICK_MS);
    if (!(wanted[0].revents & (POLLIN | POLLHUP))) return 0;
    ssize_t size = read(MESSAGES, message, sizeof message);
    return size > 0 ? (int)size : -1;
}

static inline void hand_over(const void *from, size_t size) {
    if (write(MESSAGES, from, size) < 0) exit(0);
}

static inline void say_open(void) { hand_over("open", 4); }
