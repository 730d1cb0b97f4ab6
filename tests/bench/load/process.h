/* What another process costs: CPU time of all its threads, memory, writing. */
#ifndef LOAD_PROCESS_H
#define LOAD_PROCESS_H

#include <sys/types.h>

struct process_usage {
    double cpu_s;
    /* Of cpu_s, how much was spent in the kernel, as a share of the ticks that the kernel saw: good
     * for a run of seconds. */
    double user_ticks;
    double system_ticks;
    long rss_kib;
    long pss_kib;
    /* What it had written to disks (not to sockets), as the kernel accounts for it. */
    unsigned long long written_bytes;
};

/* pid 0: nobody to be measured, all zero. A process that is gone ends the run: its figures would be
 * those of a gateway that crashed. */
struct process_usage process_usage(pid_t pid);

/* User and system time of this program. */
double own_cpu_s(void);

/* Datagrams that the kernel dropped on this machine because a receive buffer was full. */
unsigned long long udp_receive_buffer_errors(void);

#endif
