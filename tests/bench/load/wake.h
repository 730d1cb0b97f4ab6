/* Sleepers that wake up at the same moment, each with a message waiting for it. */
#ifndef LOAD_WAKE_H
#define LOAD_WAKE_H

#include "bench.h"

/* Lets all fall asleep, then for each round: a message for each, and all wake up at once. */
void run_wake(struct bench *bench);

#endif
