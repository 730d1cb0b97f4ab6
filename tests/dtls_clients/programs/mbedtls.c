/* Mbed TLS. The suite has its name there: TLS-PSK-WITH-AES-128-CCM-8. */
#include "pipe.h"

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/timing.h>

static mbedtls_net_context net;
static mbedtls_entropy_context entropy;
static mbedtls_ctr_drbg_context drbg;
static mbedtls_ssl_config config;
static mbedtls_ssl_context ssl;
static mbedtls_timing_delay_context timer;
static mbedtls_x509_crt trusted, own;
static mbedtls_pk_context own_key;

static void check(const char *what, int code) {
    if (code) fail(what, code);
}

static int waits(int code) {
    return code == MBEDTLS_ERR_SSL_WANT_READ || code == MBEDTLS_ERR_SSL_WANT_WRITE;
}

int main(int count, char **arguments) {
    begin(count, arguments);
    net.fd = udp;
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&drbg);
    mbedtls_ssl_config_init(&config);
    mbedtls_ssl_init(&ssl);
    check("drbg", mbedtls_ctr_drbg_seed(&drbg, mbedtls_entropy_func, &entropy, NULL, 0));
    check("config", mbedtls_ssl_config_defaults(&config, MBEDTLS_SSL_IS_CLIENT,
                                                MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                                MBEDTLS_SSL_PRESET_DEFAULT));
    mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &drbg);
    mbedtls_ssl_conf_handshake_timeout(&config, 500, 4000);
    int suites[] = {mbedtls_ssl_get_ciphersuite_id(suite), 0};
    if (!suites[0]) fail("no such suite", 0);
    mbedtls_ssl_conf_ciphersuites(&config, suites);
    if (name) {
        check("psk", mbedtls_ssl_conf_psk(&config, key, key_bytes, (const unsigned char *)name,
                                          strlen(name)));
    } else {
        check("authority", mbedtls_x509_crt_parse_file(&trusted, authority));
        check("certificate", mbedtls_x509_crt_parse_file(&own, certificate));
        check("key", mbedtls_pk_parse_keyfile(&own_key, private_key, NULL));
        mbedtls_ssl_conf_ca_chain(&config, &trusted, NULL);
        check("own", mbedtls_ssl_conf_own_cert(&config, &own, &own_key));
    }
    check("setup", mbedtls_ssl_setup(&ssl, &config));
    if (!name) check("name", mbedtls_ssl_set_hostname(&ssl, "localhost"));
    mbedtls_ssl_set_bio(&ssl, &net, mbedtls_net_send, mbedtls_net_recv, NULL);
    mbedtls_ssl_set_timer_cb(&ssl, &timer, mbedtls_timing_set_delay, mbedtls_timing_get_delay);
    for (int code; (code = mbedtls_ssl_handshake(&ssl)) != 0; wait_for_datagram())
        if (!waits(code)) fail("handshake", code);
    say_open();
    for (int size; (size = next_message()) >= 0;) {
        if (size > 0 && mbedtls_ssl_write(&ssl, message, size) < 0) fail("write", size);
        while ((size = mbedtls_ssl_read(&ssl, message, sizeof message)) > 0)
            hand_over(message, size);
        if (!waits(size)) fail("read", size);
    }
    mbedtls_ssl_close_notify(&ssl);
    return 0;
}
