/* Yardstick: what a datagram costs this kernel, in C, in batches, with nothing else done to it. */
#ifndef LOAD_ECHO_H
#define LOAD_ECHO_H

#include "options.h"

struct echo_result {
    double echoes_per_s;
    double server_cpu_us_per_echo;
};

struct echo_result run_echo(const struct options *options);

#endif
