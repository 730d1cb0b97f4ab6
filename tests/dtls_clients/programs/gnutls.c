/* GnuTLS. The suite is a part of its priorities: PSK:+AES-128-CCM-8:+AEAD. */
#include "pipe.h"

#include <gnutls/dtls.h>
#include <gnutls/gnutls.h>

static void check(const char *what, int code) {
    if (code < 0) fail(what, code);
}

int main(int count, char **arguments) {
    char priorities[256];
    gnutls_session_t session;
    begin(count, arguments);
    check("session", gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_DATAGRAM | GNUTLS_NONBLOCK));
    snprintf(priorities, sizeof priorities,
             "NONE:+VERS-DTLS1.2:+COMP-NULL:+SIGN-ALL:+GROUP-ALL:+CTYPE-X509:+%s", suite);
    check("suite", gnutls_priority_set_direct(session, priorities, NULL));
    if (name) {
        gnutls_psk_client_credentials_t with;
        gnutls_datum_t secret = {key, key_bytes};
        check("psk", gnutls_psk_allocate_client_credentials(&with));
        check("key", gnutls_psk_set_client_credentials(with, name, &secret, GNUTLS_PSK_KEY_RAW));
        check("with", gnutls_credentials_set(session, GNUTLS_CRD_PSK, with));
    } else {
        gnutls_certificate_credentials_t with;
        check("x509", gnutls_certificate_allocate_credentials(&with));
        check("authority",
              gnutls_certificate_set_x509_trust_file(with, authority, GNUTLS_X509_FMT_PEM));
        check("certificate", gnutls_certificate_set_x509_key_file(with, certificate, private_key,
                                                                  GNUTLS_X509_FMT_PEM));
        check("with", gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, with));
        gnutls_session_set_verify_cert(session, "localhost", 0);
    }
    gnutls_transport_set_int(session, udp);
    gnutls_dtls_set_mtu(session, 1200);
    gnutls_dtls_set_timeouts(session, 500, 60000);
    for (int code; (code = gnutls_handshake(session)) != 0; wait_for_datagram())
        if (gnutls_error_is_fatal(code)) fail(gnutls_strerror(code), code);
    say_open();
    for (int size; (size = next_message()) >= 0;) {
        if (size > 0) check("write", (int)gnutls_record_send(session, message, size));
        while ((size = (int)gnutls_record_recv(session, message, sizeof message)) > 0)
            hand_over(message, size);
        if (size == 0 || gnutls_error_is_fatal(size)) fail("read", size);
    }
    gnutls_bye(session, GNUTLS_SHUT_WR);
    return 0;
}
