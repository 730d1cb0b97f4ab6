#define _GNU_SOURCE
#include "process.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The CPU clock of a process has nanoseconds, counts every thread and keeps those that have ended.
 * The sum over /proc/PID/task/x/schedstat is the same number without the ended threads, and some
 * kernels of small boards are built without schedstat. */
static double cpu_seconds(clockid_t clock_of_process)
{
    struct timespec used;
    if (clock_gettime(clock_of_process, &used) != 0)
        return -1;
    return (double)used.tv_sec + (double)used.tv_nsec / (double)NS_PER_S;
}

static void read_memory(pid_t pid, struct process_usage *usage)
{
    char line[256];
    snprintf(line, sizeof line, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(line, "r");
    if (file == NULL)
        fatal_errno("cannot read the memory of the measured process");
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "Rss: %ld", &usage->rss_kib);
        sscanf(line, "Pss: %ld", &usage->pss_kib);
    }
    fclose(file);
}

/* Counted when a page of a file becomes dirty; a file system in memory counts nothing. */
static void read_writing(pid_t pid, struct process_usage *usage)
{
    char line[256];
    snprintf(line, sizeof line, "/proc/%d/io", (int)pid);
    FILE *file = fopen(line, "r");
    if (file == NULL)
        fatal_errno("cannot read what the measured process writes");
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "write_bytes: %llu", &usage->written_bytes);
    fclose(file);
}

static void read_ticks(pid_t pid, struct process_usage *usage)
{
    char text[1024];
    snprintf(text, sizeof text, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(text, "r");
    if (file == NULL)
        fatal_errno("cannot read the CPU time of the measured process");
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    /* Fields 14 and 15; the name, field 2, ends with the last bracket and may hold anything. */
    const char *rest = strrchr(text, ')');
    if (rest != NULL)
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &usage->user_ticks,
               &usage->system_ticks);
}

struct process_usage process_usage(pid_t pid)
{
    struct process_usage usage = {0};
    clockid_t clock_of_process;
    if (pid == 0)
        return usage;
    if (clock_getcpuclockid(pid, &clock_of_process) != 0)
        fatal("process %d is gone: did the gateway or the broker crash?", (int)pid);
    usage.cpu_s = cpu_seconds(clock_of_process);
    if (usage.cpu_s < 0)
        fatal("process %d is gone: did the gateway or the broker crash?", (int)pid);
    read_ticks(pid, &usage);
    read_memory(pid, &usage);
    read_writing(pid, &usage);
    return usage;
}

double own_cpu_s(void)
{
    return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

unsigned long long udp_receive_buffer_errors(void)
{
    char line[512];
    unsigned long long errors = 0;
    FILE *file = fopen("/proc/net/snmp", "r");
    if (file == NULL)
        return 0;
    /* Two lines begin with Udp: the names, then the numbers; RcvbufErrors is the fifth. */
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "Udp: %*u %*u %*u %*u %llu", &errors);
    fclose(file);
    return errors;
}
