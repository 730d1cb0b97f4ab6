/* The measured part of a run: messages in a closed loop or at a rate, then the stragglers. */
#ifndef LOAD_TRAFFIC_H
#define LOAD_TRAFFIC_H

#include "bench.h"

/* Opens our side of the broker; returns when it answers. */
void open_broker_side(struct bench *bench);
/* Lets the clients connect, all at once or a window at a time. */
void connect_sensors(struct bench *bench);
/* Returns when messages pass from end to end; ends the program when they never do. */
void warm_up(struct bench *bench);
/* As many as there is room for at the broker; to each client in turn. */
void publish_through_broker(struct bench *bench, uint64_t count);
void run_traffic(struct bench *bench);
/* Notes when the broker goes, and connects to it again. */
void watch_outage(struct bench *bench);
void stay_idle(struct bench *bench);

#endif
