/* One JSON object on stdout; its names are what tests/bench/measurement.py reads. */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include "bench.h"
#include "echo.h"

void report_traffic(const struct bench *bench);
void report_wake(const struct bench *bench);
void report_storm(const struct bench *bench);
void report_echo(const struct echo_result *result);

#endif
