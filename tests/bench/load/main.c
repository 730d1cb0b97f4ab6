/* Load generator for MQTT-SN 1.2 gateways: see --help. */
#define _GNU_SOURCE
#include "bench.h"
#include "echo.h"
#include "report.h"
#include "traffic.h"
#include "wake.h"

#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define EVENTS_PER_TURN_MAX 512

struct snapshot snapshot(const struct bench *bench)
{
    return (struct snapshot){
        .gateway = process_usage(bench->options.gateway_pid),
        .broker = process_usage(bench->options.broker_pid),
        .own_cpu_s = own_cpu_s(),
        .udp_receive_buffer_errors = udp_receive_buffer_errors(),
    };
}

static void handle_event(struct bench *bench, const struct epoll_event *event)
{
    if (event->data.u64 != TAG_SUBSCRIBER && event->data.u64 != TAG_PUBLISHER) {
        sensor_receive(bench, (unsigned)event->data.u64);
        return;
    }
    struct broker_link *link =
        event->data.u64 == TAG_SUBSCRIBER ? &bench->subscriber : &bench->publisher;
    if (event->events & EPOLLOUT)
        link_flush(link);
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        link_read(link);
}

void pump(struct bench *bench, uint64_t wait_ns_max)
{
    struct epoll_event events[EVENTS_PER_TURN_MAX];
    struct timespec wait = {(time_t)(wait_ns_max / NS_PER_S), (long)(wait_ns_max % NS_PER_S)};
    int count = epoll_pwait2(bench->epoll, events, EVENTS_PER_TURN_MAX, &wait, NULL);
    bench->now = now_ns();
    for (int index = 0; index < count; index++)
        handle_event(bench, &events[index]);
    sensors_handle_time(bench);
    if (bench->options.broker_returns)
        watch_outage(bench);
}

/* Beside the sockets of the clients. */
#define FILES_BESIDE 64

/* One socket per client: as many open files as the system lets us have, and more where we may. */
static void raise_open_files(const struct bench *bench)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fatal_errno("getrlimit");
    rlim_t wanted = bench->options.clients + FILES_BESIDE;
    struct rlimit raised = {wanted, wanted};
    if (wanted > limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void run(struct bench *bench)
{
    enum mode mode = bench->options.mode;
    bench->epoll = epoll_create1(0);
    if (bench->epoll < 0)
        fatal_errno("epoll_create1");
    bench->now = now_ns();
    ledger_open(&bench->ledger, bench->options.clients);
    sensors_open(bench);
    open_broker_side(bench);
    bench->at_start = snapshot(bench);
    if (mode != MODE_DIRECT)
        connect_sensors(bench);
    if (mode != MODE_STORM)
        warm_up(bench);
    bench->when_connected = snapshot(bench);
    if (mode == MODE_STORM)
        stay_idle(bench);
    else if (mode == MODE_WAKE)
        run_wake(bench);
    else
        run_traffic(bench);
    bench->at_end = snapshot(bench);
}

int main(int count, char **words)
{
    static struct bench bench;
    bench.options = options_from(count, words);
    signal(SIGPIPE, SIG_IGN);
    raise_open_files(&bench);
    if (bench.options.mode == MODE_ECHO) {
        struct echo_result result = run_echo(&bench.options);
        report_echo(&result);
        return 0;
    }
    run(&bench);
    if (bench.options.mode == MODE_STORM)
        report_storm(&bench);
    else if (bench.options.mode == MODE_WAKE)
        report_wake(&bench);
    else
        report_traffic(&bench);
    return 0;
}
