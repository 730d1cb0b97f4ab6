#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "usage: load MODE [options]\n"
    "\n"
    "Measures an MQTT-SN 1.2 gateway over UDP: it plays N clients and is the MQTT client at the\n"
    "broker as well, so every message is followed from end to end. One JSON object goes to stdout.\n"
    "\n"
    "modes\n"
    "  pub     clients publish -> gateway -> broker -> our subscription\n"
    "  sub     our publisher -> broker -> gateway -> subscribed clients\n"
    "  storm   N clients CONNECT, then stay idle\n"
    "  wake    N clients subscribe and fall asleep; all wake up at once, a message waiting for each\n"
    "  direct  yardstick: our publisher -> broker -> our subscription, no gateway\n"
    "  echo    yardstick: UDP echo in C by recvmmsg and sendmmsg, no gateway, no broker\n"
    "\n"
    "where\n"
    "  --host A --port P        the gateway (127.0.0.1, 1883)\n"
    "  --broker-port P          the broker on 127.0.0.1 (1884)\n"
    "  --mqtt-version V         3 or 5, towards the broker (5)\n"
    "  --gateway-pid P, --broker-pid P   whose CPU time and memory to measure\n"
    "what\n"
    "  --clients N              (1)\n"
    "  --qos Q                  of the clients: -1, 0, 1, 2 (0)\n"
    "  --subscription-qos Q     pub, direct: of our subscription at the broker (0)\n"
    "  --payload-bytes N        24 to 60000 (64)\n"
    "  --topic own|shared|predefined:ID|short:ab   (own)\n"
    "how\n"
    "  --seconds S              length of the run (5)\n"
    "  --rate R                 open loop, R messages a second in total; 0 = closed loop (0)\n"
    "  --burst B                open loop: B messages at a time, at most 128 (1)\n"
    "  --window W               closed loop: messages (sub: deliveries) under way in total (256);\n"
    "                           QoS 1 and 2 of `pub` have one per client instead\n"
    "  --connect-window W       clients between CONNECT and ready; 0 = all at once (100)\n"
    "  --connect-timeout S      give up waiting for clients to be ready (30)\n"
    "  --retry-after S --retries N   retransmission by the clients (2, 5)\n"
    "  --keep-alive S           in CONNECT (3600)\n"
    "  --drain S                longest wait for stragglers (5)\n"
    "  --broker-returns         pub: somebody restarts the broker once during the run; says \"running\"\n"
    "                           on stderr when it begins, keeps its session there, connects again\n"
    "storm, wake\n"
    "  --hold S                 storm: stay idle this long and measure; wake: time for the messages\n"
    "                           to reach the gateway (3)\n"
    "  --sleep S                DISCONNECT with this duration after CONNACK; wake: needed\n"
    "  --rounds N               wake: how often (5)\n"
    "  --close                  close each socket once its client is ready, to go beyond the\n"
    "                           limit of open files\n";

enum option_id {
    OPTION_HELP = 1, OPTION_HOST, OPTION_PORT, OPTION_BROKER_PORT, OPTION_MQTT_VERSION,
    OPTION_GATEWAY_PID, OPTION_BROKER_PID, OPTION_CLIENTS, OPTION_QOS, OPTION_SUBSCRIPTION_QOS,
    OPTION_PAYLOAD_BYTES, OPTION_TOPIC, OPTION_SECONDS, OPTION_RATE, OPTION_WINDOW,
    OPTION_CONNECT_WINDOW, OPTION_CONNECT_TIMEOUT, OPTION_RETRY_AFTER, OPTION_RETRIES,
    OPTION_KEEP_ALIVE, OPTION_DRAIN, OPTION_BURST, OPTION_HOLD, OPTION_SLEEP, OPTION_CLOSE,
    OPTION_BROKER_RETURNS, OPTION_ROUNDS,
};

static const struct option OPTIONS[] = {
    {"help", no_argument, NULL, OPTION_HELP},
    {"host", required_argument, NULL, OPTION_HOST},
    {"port", required_argument, NULL, OPTION_PORT},
    {"broker-port", required_argument, NULL, OPTION_BROKER_PORT},
    {"mqtt-version", required_argument, NULL, OPTION_MQTT_VERSION},
    {"gateway-pid", required_argument, NULL, OPTION_GATEWAY_PID},
    {"broker-pid", required_argument, NULL, OPTION_BROKER_PID},
    {"clients", required_argument, NULL, OPTION_CLIENTS},
    {"qos", required_argument, NULL, OPTION_QOS},
    {"subscription-qos", required_argument, NULL, OPTION_SUBSCRIPTION_QOS},
    {"payload-bytes", required_argument, NULL, OPTION_PAYLOAD_BYTES},
    {"topic", required_argument, NULL, OPTION_TOPIC},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"burst", required_argument, NULL, OPTION_BURST},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"connect-window", required_argument, NULL, OPTION_CONNECT_WINDOW},
    {"connect-timeout", required_argument, NULL, OPTION_CONNECT_TIMEOUT},
    {"retry-after", required_argument, NULL, OPTION_RETRY_AFTER},
    {"retries", required_argument, NULL, OPTION_RETRIES},
    {"keep-alive", required_argument, NULL, OPTION_KEEP_ALIVE},
    {"broker-returns", no_argument, NULL, OPTION_BROKER_RETURNS},
    {"drain", required_argument, NULL, OPTION_DRAIN},
    {"hold", required_argument, NULL, OPTION_HOLD},
    {"sleep", required_argument, NULL, OPTION_SLEEP},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"close", no_argument, NULL, OPTION_CLOSE},
    {NULL, 0, NULL, 0},
};

static void wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "load: %s: %s (see load --help)\n", what, value);
    exit(EXIT_USAGE);
}

static double number(const char *text, double min, double max)
{
    char *end;
    char expected[80];
    double value = strtod(text, &end);
    if (end != text && *end == '\0' && value >= min && value <= max)
        return value;
    snprintf(expected, sizeof expected, "expected a number from %.0f to %.0f, got", min, max);
    wrong_usage(expected, text);
    return 0;
}

static long whole(const char *text, long min, long max)
{
    double value = number(text, (double)min, (double)max);
    if (value != (double)(long)value)
        wrong_usage("expected a whole number, got", text);
    return (long)value;
}

static enum mode mode_from(const char *word)
{
    static const char *const names[] = {"pub", "sub", "storm", "direct", "echo", "wake"};
    for (unsigned mode = 0; mode < sizeof names / sizeof *names; mode++)
        if (strcmp(word, names[mode]) == 0)
            return (enum mode)mode;
    wrong_usage("unknown mode", word);
    return MODE_PUB;
}

static void set_topic(struct options *options, const char *text)
{
    if (strcmp(text, "own") == 0) {
        options->topic = TOPIC_OWN;
    } else if (strcmp(text, "shared") == 0) {
        options->topic = TOPIC_SHARED;
    } else if (strncmp(text, "predefined:", 11) == 0) {
        options->topic = TOPIC_PREDEFINED;
        options->predefined_id = (uint16_t)whole(text + 11, 1, 65534);
    } else if (strncmp(text, "short:", 6) == 0 && strlen(text) == 8) {
        options->topic = TOPIC_SHORT;
        memcpy(options->short_name, text + 6, 2);
    } else {
        wrong_usage("expected own, shared, predefined:ID or short:ab, got", text);
    }
}

static bool set_where(struct options *options, int id, const char *value)
{
    switch (id) {
    case OPTION_HOST: options->host = value; return true;
    case OPTION_PORT: options->port = (int)whole(value, 1, 65535); return true;
    case OPTION_BROKER_PORT: options->broker_port = (int)whole(value, 1, 65535); return true;
    case OPTION_MQTT_VERSION: options->mqtt_version = (int)whole(value, 3, 5); return true;
    case OPTION_GATEWAY_PID: options->gateway_pid = (pid_t)whole(value, 1, 1L << 30); return true;
    case OPTION_BROKER_PID: options->broker_pid = (pid_t)whole(value, 1, 1L << 30); return true;
    default: return false;
    }
}

static bool set_what(struct options *options, int id, const char *value)
{
    switch (id) {
    case OPTION_CLIENTS: options->clients = (unsigned)whole(value, 1, CLIENTS_MAX); return true;
    case OPTION_QOS: options->qos = (int)whole(value, -1, 2); return true;
    case OPTION_SUBSCRIPTION_QOS: options->subscription_qos = (int)whole(value, 0, 2); return true;
    case OPTION_PAYLOAD_BYTES:
        options->payload_bytes = (unsigned)whole(value, PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX);
        return true;
    case OPTION_TOPIC: set_topic(options, value); return true;
    case OPTION_HOLD: options->hold_s = number(value, 0, 3600); return true;
    case OPTION_SLEEP: options->sleep_s = (unsigned)whole(value, 1, 65535); return true;
    case OPTION_ROUNDS: options->rounds = (unsigned)whole(value, 1, 10000); return true;
    case OPTION_BROKER_RETURNS: options->broker_returns = true; return true;
    case OPTION_CLOSE: options->close_when_ready = true; return true;
    default: return false;
    }
}

static void set_how(struct options *options, int id, const char *value)
{
    switch (id) {
    case OPTION_SECONDS: options->seconds = number(value, 0, 86400); break;
    case OPTION_RATE: options->rate_per_s = number(value, 0, 1e7); break;
    case OPTION_BURST: options->burst = (unsigned)whole(value, 1, BURST_MAX); break;
    case OPTION_WINDOW: options->window = (unsigned)whole(value, 1, WINDOW_MAX); break;
    case OPTION_CONNECT_WINDOW:
        options->connect_window = (unsigned)whole(value, 0, CLIENTS_MAX);
        break;
    case OPTION_CONNECT_TIMEOUT: options->connect_timeout_s = number(value, 0, 3600); break;
    case OPTION_RETRY_AFTER: options->retry_after_s = number(value, 0, 3600); break;
    case OPTION_RETRIES: options->retries_max = (unsigned)whole(value, 0, 100); break;
    case OPTION_KEEP_ALIVE: options->keep_alive_s = (unsigned)whole(value, 0, 65535); break;
    case OPTION_DRAIN: options->drain_s = number(value, 0, 3600); break;
    default: exit(EXIT_USAGE); /* getopt_long has said what is wrong */
    }
}

static void check(const struct options *options)
{
    bool named = options->topic == TOPIC_OWN || options->topic == TOPIC_SHARED;
    if (options->qos == -1 && options->mode != MODE_PUB)
        wrong_usage("QoS -1 exists only in mode", "pub");
    if (options->qos == -1 && named)
        wrong_usage("QoS -1 needs --topic", "predefined:ID or short:ab");
    if (options->mode == MODE_SUB && !named)
        wrong_usage("mode sub needs --topic", "own or shared");
    if (options->mode == MODE_WAKE && (options->topic != TOPIC_OWN || options->sleep_s == 0))
        wrong_usage("mode wake needs --sleep and --topic", "own");
    if (options->broker_returns && (options->mode != MODE_PUB || options->mqtt_version != 5))
        wrong_usage("--broker-returns needs MQTT 5 and mode", "pub");
    if (options->mqtt_version == 4)
        wrong_usage("--mqtt-version is 3 (3.1.1) or 5, got", "4");
}

struct options options_from(int count, char **words)
{
    struct options options = {
        .host = "127.0.0.1", .port = 1883, .broker_port = 1884, .mqtt_version = 5, .clients = 1,
        .payload_bytes = 64, .seconds = 5, .burst = 1, .window = 256, .connect_window = 100,
        .connect_timeout_s = 30, .retry_after_s = 2, .retries_max = 5, .keep_alive_s = 3600,
        .hold_s = 3, .drain_s = 5, .rounds = 5,
    };
    int id;
    while ((id = getopt_long(count, words, "", OPTIONS, NULL)) != -1) {
        if (id == OPTION_HELP) {
            fputs(HELP, stdout);
            exit(0);
        }
        if (!set_where(&options, id, optarg) && !set_what(&options, id, optarg))
            set_how(&options, id, optarg);
    }
    if (optind != count - 1)
        wrong_usage("expected one mode", optind < count ? words[optind + 1] : "none");
    options.mode_name = words[optind];
    options.mode = mode_from(words[optind]);
    check(&options);
    return options;
}
