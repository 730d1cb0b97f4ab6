#include "report.h"

#include <stdio.h>

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

static double per(double amount, uint64_t count)
{
    return count == 0 ? 0 : amount / (double)count;
}

static void count(const char *name, uint64_t value)
{
    printf("\"%s\":%llu,", name, (unsigned long long)value);
}

static void amount(const char *name, double value)
{
    printf("\"%s\":%.3f,", name, value);
}

/* Pairs of a bucket's smallest time, in microseconds, and how many fell into it; empty ones left out. */
static void buckets(const struct histogram *histogram)
{
    const char *between = "";
    printf("\"buckets\":[");
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        if (histogram->buckets[bucket] == 0)
            continue;
        printf("%s[%.2f,%llu]", between, us(histogram_bucket_ns(bucket)),
               (unsigned long long)histogram->buckets[bucket]);
        between = ",";
    }
    printf("]");
}

static void times(const char *name, const struct histogram *histogram)
{
    printf("\"%s\":{\"count\":%llu,\"p50\":%.0f,\"p95\":%.0f,\"p99\":%.0f,\"p999\":%.0f,"
           "\"max\":%.0f,\"share_near_40ms\":%.6f,",
           name, (unsigned long long)histogram->count, us(histogram_quantile_ns(histogram, 0.5)),
           us(histogram_quantile_ns(histogram, 0.95)), us(histogram_quantile_ns(histogram, 0.99)),
           us(histogram_quantile_ns(histogram, 0.999)), us(histogram->max_ns),
           histogram_share_near_40ms(histogram));
    buckets(histogram);
    printf("},");
}

/* `done` is what the CPU time was spent on: messages, or clients in a storm. */
static void process(const char *name, const struct process_usage *start,
                    const struct process_usage *connected, const struct process_usage *end,
                    const struct bench *bench, uint64_t done)
{
    double cpu_s = end->cpu_s - connected->cpu_s;
    double connect_cpu_s = connected->cpu_s - start->cpu_s;
    double system = end->system_ticks - connected->system_ticks;
    double ticks = system + end->user_ticks - connected->user_ticks;
    printf("\"%s\":{\"cpu_s\":%.6f,\"cpu_us_per_message\":%.3f,\"cpu_percent\":%.2f,"
           "\"kernel_share\":%.4f,"
           "\"connect_cpu_us_per_client\":%.3f,"
           "\"rss_kib\":{\"start\":%ld,\"connected\":%ld,\"end\":%ld},"
           "\"pss_kib\":{\"start\":%ld,\"connected\":%ld,\"end\":%ld},"
           "\"rss_kib_per_client\":%.3f,\"written_bytes_per_message\":%.3f},",
           name, cpu_s, per(cpu_s * 1e6, done),
           bench->run_s > 0 ? 100 * cpu_s / bench->run_s : 0, ticks > 0 ? system / ticks : 0,
           per(connect_cpu_s * 1e6, bench->counts.ready), start->rss_kib, connected->rss_kib,
           end->rss_kib, start->pss_kib, connected->pss_kib, end->pss_kib,
           per((double)(connected->rss_kib - start->rss_kib), bench->counts.ready),
           per((double)(end->written_bytes - connected->written_bytes), done));
}

static void begin(const struct bench *bench)
{
    printf("{\"mode\":\"%s\",", bench->options.mode_name);
    count("clients", bench->options.clients);
    printf("\"qos\":%d,", bench->options.qos);
    count("payload_bytes", bench->options.payload_bytes);
    printf("\"mqtt_version\":%d,", bench->options.mqtt_version);
    amount("rate_asked_per_s", bench->options.rate_per_s);
    amount("seconds", bench->run_s);
}

static void connecting(const struct bench *bench)
{
    const struct sensor_counts *counts = &bench->counts;
    printf("\"connect\":{");
    count("ready", counts->ready);
    count("refused", counts->refused);
    count("timed_out", counts->timed_out);
    count("retries", counts->connect_retries);
    times("us", &bench->connecting);
    printf("\"seconds\":%.4f},", bench->connect_s);
}

static void both_processes(const struct bench *bench, uint64_t done)
{
    const struct snapshot *start = &bench->at_start;
    const struct snapshot *connected = &bench->when_connected;
    const struct snapshot *end = &bench->at_end;
    process("gateway", &start->gateway, &connected->gateway, &end->gateway, bench, done);
    process("broker", &start->broker, &connected->broker, &end->broker, bench, done);
}

static void finish(const struct bench *bench, uint64_t done)
{
    const struct snapshot *connected = &bench->when_connected;
    const struct snapshot *end = &bench->at_end;
    count("disconnected", bench->counts.disconnected);
    count("malformed", bench->counts.malformed);
    count("send_failed", bench->counts.send_failed);
    count("udp_receive_buffer_errors",
          end->udp_receive_buffer_errors - connected->udp_receive_buffer_errors);
    printf("\"generator_cpu_us_per_message\":%.3f}\n",
           per((end->own_cpu_s - connected->own_cpu_s) * 1e6, done));
}

static void outage(const struct bench *bench)
{
    const struct outage *seen = &bench->outage;
    double drain_s = (double)(seen->drained_at - seen->drain_began) / (double)NS_PER_S;
    printf("\"outage\":{");
    amount("seconds", (double)(seen->back_at - seen->away_at) / (double)NS_PER_S);
    times("acknowledge_us", &seen->acknowledging);
    count("backlog", seen->backlog);
    amount("drain_seconds", drain_s);
    printf("\"drain_rate_per_s\":%.3f},", drain_s > 0 ? (double)seen->backlog / drain_s : 0);
}

/* What became of the messages, of which `expected` should have arrived. */
static void arrivals(const struct bench *bench, uint64_t expected)
{
    const struct ledger *ledger = &bench->ledger;
    count("sent", ledger->sent);
    count("acknowledged", ledger->acknowledged);
    count("unacknowledged", bench->unacknowledged);
    count("received", ledger->received);
    count("lost", expected - ledger->received);
    count("lost_acknowledged", ledger_lost_acknowledged(ledger));
    count("duplicates", ledger->duplicates);
    count("out_of_order", ledger->out_of_order);
    count("foreign", ledger->foreign);
    count("publish_retries", bench->counts.publish_retries);
    count("given_up", bench->counts.given_up);
    count("rejected", bench->counts.rejected);
}

void report_traffic(const struct bench *bench)
{
    const struct ledger *ledger = &bench->ledger;
    begin(bench);
    connecting(bench);
    arrivals(bench, ledger->sent * bench->deliveries_per_message);
    amount("rate_per_s", bench->run_s > 0 ? (double)ledger->received / bench->run_s : 0);
    times("end_to_end_us", &bench->end_to_end);
    times("acknowledge_us", &bench->acknowledging);
    if (bench->options.broker_returns)
        outage(bench);
    both_processes(bench, ledger->received);
    amount("late_ms_max", (double)bench->late_ns_max / 1e6);
    amount("skipped_ms", (double)bench->skipped_ns / 1e6);
    finish(bench, ledger->received);
}

void report_wake(const struct bench *bench)
{
    const struct ledger *ledger = &bench->ledger;
    const struct wake *wake = &bench->wake;
    uint64_t woken = (uint64_t)wake->rounds * bench->counts.ready;
    begin(bench);
    connecting(bench);
    printf("\"wake\":{");
    count("rounds", wake->rounds);
    amount("longest_us", us(wake->longest_ns));
    times("answered_us", &bench->acknowledging);
    count("early", wake->early);
    printf("\"gateway_cpu_us_per_client\":%.3f},", per(wake->gateway_cpu_s * 1e6, woken));
    arrivals(bench, ledger->sent);
    both_processes(bench, ledger->received);
    finish(bench, ledger->received);
}

void report_storm(const struct bench *bench)
{
    begin(bench);
    connecting(bench);
    both_processes(bench, 0);
    finish(bench, 0);
}

void report_echo(const struct echo_result *result)
{
    printf("{\"mode\":\"echo\",\"rate_per_s\":%.0f,\"cpu_us_per_message\":%.3f}\n",
           result->echoes_per_s, result->server_cpu_us_per_echo);
}
