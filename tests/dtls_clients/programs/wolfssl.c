/* wolfSSL. The suite has its name there: PSK-AES128-GCM-SHA256. */
#include "pipe.h"

#ifdef WOLFSSL_USER_SETTINGS
#include <wolfssl/wolfcrypt/settings.h>
#else
#include <wolfssl/options.h>
#endif
#include <wolfssl/ssl.h>

static unsigned int psk(WOLFSSL *ssl, const char *hint, char *named, unsigned int named_max,
                        unsigned char *secret, unsigned int secret_max) {
    (void)ssl, (void)hint;
    if (strlen(name) >= named_max || key_bytes > secret_max) return 0;
    strcpy(named, name);
    memcpy(secret, key, key_bytes);
    return key_bytes;
}

static void check(const char *what, int code) {
    if (code != WOLFSSL_SUCCESS) fail(what, code);
}

static int waits(WOLFSSL *ssl) {
    int error = wolfSSL_get_error(ssl, 0);
    return error == WOLFSSL_ERROR_WANT_READ || error == WOLFSSL_ERROR_WANT_WRITE;
}

int main(int count, char **arguments) {
    begin(count, arguments);
    wolfSSL_Init();
    WOLFSSL_CTX *context = wolfSSL_CTX_new(wolfDTLSv1_2_client_method());
    check("suite", wolfSSL_CTX_set_cipher_list(context, suite));
    if (name) {
        wolfSSL_CTX_set_psk_client_callback(context, psk);
    } else {
        check("authority", wolfSSL_CTX_load_verify_locations(context, authority, NULL));
        check("certificate", wolfSSL_CTX_use_certificate_chain_file(context, certificate));
        check("key", wolfSSL_CTX_use_PrivateKey_file(context, private_key, WOLFSSL_FILETYPE_PEM));
    }
    WOLFSSL *ssl = wolfSSL_new(context);
    check("peer", wolfSSL_dtls_set_peer(ssl, &gateway, sizeof gateway));
    check("socket", wolfSSL_set_fd(ssl, udp));
    wolfSSL_dtls_set_using_nonblock(ssl, 1);
    for (int waited_ms = 0; wolfSSL_connect(ssl) != WOLFSSL_SUCCESS;) {
        if (!waits(ssl)) fail("handshake", wolfSSL_get_error(ssl, 0));
        waited_ms = wait_for_datagram() ? 0 : waited_ms + TICK_MS;
        if (waited_ms < 1000 * wolfSSL_dtls_get_current_timeout(ssl)) continue;
        waited_ms = 0;
        if (wolfSSL_dtls_got_timeout(ssl) != WOLFSSL_SUCCESS && !waits(ssl)) fail("timeout", 0);
    }
    say_open();
    for (int size; (size = next_message()) >= 0;) {
        if (size > 0 && wolfSSL_write(ssl, message, size) < 0) fail("write", size);
        while ((size = wolfSSL_read(ssl, message, sizeof message)) > 0) hand_over(message, size);
        if (!waits(ssl)) fail("read", wolfSSL_get_error(ssl, size));
    }
    wolfSSL_shutdown(ssl);
    return 0;
}
