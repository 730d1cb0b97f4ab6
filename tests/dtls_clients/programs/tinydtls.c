/* tinydtls, which has the suite TLS_PSK_WITH_AES_128_CCM_8 and no certificates. */
#include "pipe.h"

#include "tinydtls.h"
#include "dtls.h"
#include "dtls_debug.h"

static int is_open, is_ended;

static int send_datagram(dtls_context_t *context, session_t *to, uint8 *data, size_t size) {
    (void)context, (void)to;
    send(udp, data, size, 0); /* an error is a loss */
    return (int)size;
}

static int receive_message(dtls_context_t *context, session_t *from, uint8 *data, size_t size) {
    (void)context, (void)from;
    hand_over(data, size);
    return 0;
}

static int event(dtls_context_t *context, session_t *of, dtls_alert_level_t level,
                 unsigned short code) {
    (void)context, (void)of;
    if (code == DTLS_EVENT_CONNECTED) is_open = 1;
    if (level) is_ended = 1;
    return 0;
}

static int psk(dtls_context_t *context, const session_t *of, dtls_credentials_type_t kind,
               const unsigned char *hint, size_t hint_bytes, unsigned char *result, size_t room) {
    (void)context, (void)of, (void)hint, (void)hint_bytes;
    if (kind == DTLS_PSK_HINT) return 0;
    const void *from = kind == DTLS_PSK_IDENTITY ? (const void *)name : key;
    size_t size = kind == DTLS_PSK_IDENTITY ? strlen(name) : key_bytes;
    if (size > room) return dtls_alert_fatal_create(DTLS_ALERT_INTERNAL_ERROR);
    memcpy(result, from, size);
    return (int)size;
}

static void receive_all(dtls_context_t *context, session_t *peer) {
    static uint8 datagram[MESSAGE_BYTES_MAX];
    ssize_t size;
    while ((size = recv(udp, datagram, sizeof datagram, 0)) > 0)
        dtls_handle_message(context, peer, datagram, size);
    dtls_check_retransmit(context, NULL);
    if (is_ended) fail("ended", is_open);
}

int main(int count, char **arguments) {
    begin(count, arguments);
    dtls_init();
    dtls_set_log_level(DTLS_LOG_EMERG);
    dtls_context_t *context = dtls_new_context(NULL);
    dtls_handler_t handler = {.write = send_datagram, .read = receive_message, .event = event,
                              .get_psk_info = psk};
    dtls_set_handler(context, &handler);
    session_t peer;
    dtls_session_init(&peer);
    peer.size = sizeof peer.addr.sin;
    peer.addr.sin = gateway;
    if (dtls_connect(context, &peer) < 0) fail("connect", 0);
    while (!is_open) {
        wait_for_datagram();
        receive_all(context, &peer);
    }
    say_open();
    for (int size; (size = next_message()) >= 0;) {
        if (size > 0 && dtls_write(context, &peer, message, size) < 0) fail("write", size);
        receive_all(context, &peer);
    }
    dtls_close(context, &peer);
    return 0;
}
