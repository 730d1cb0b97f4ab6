/* The command line, as a value. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "base.h"

#include <sys/types.h>

#define PAYLOAD_BYTES_MIN 24
#define PAYLOAD_BYTES_MAX 60000
#define CLIENTS_MAX 200000
/* 65,535 packet identifiers, less room for those that are being given back. */
#define WINDOW_MAX 60000
/* Messages that are put on their way before what has arrived is looked at. */
#define BURST_MAX 128

enum mode { MODE_PUB, MODE_SUB, MODE_STORM, MODE_DIRECT, MODE_ECHO, MODE_WAKE };
enum topic_kind { TOPIC_OWN, TOPIC_SHARED, TOPIC_PREDEFINED, TOPIC_SHORT };

struct options {
    enum mode mode;
    const char *mode_name;
    const char *host;
    int port;
    int broker_port;
    int mqtt_version;
    pid_t gateway_pid;
    pid_t broker_pid;
    unsigned clients;
    int qos;
    int subscription_qos;
    unsigned payload_bytes;
    double seconds;
    double rate_per_s;
    unsigned burst;
    unsigned window;
    enum topic_kind topic;
    uint16_t predefined_id;
    char short_name[3];
    unsigned connect_window;
    double connect_timeout_s;
    double retry_after_s;
    unsigned retries_max;
    unsigned keep_alive_s;
    double hold_s;
    unsigned rounds;
    unsigned sleep_s;
    bool close_when_ready;
    double drain_s;
    bool broker_returns;
};

/* Ends the program with EXIT_USAGE on a wrong command line, with 0 on --help. */
struct options options_from(int count, char **words);

#endif
