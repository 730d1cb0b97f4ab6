/* What every file here needs: time, big-endian numbers, and one way to end with a message. */
#ifndef LOAD_BASE_H
#define LOAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* 1: the run failed, 2: the command line is wrong. */
#define EXIT_RUN_FAILED 1
#define EXIT_USAGE 2

uint64_t now_ns(void);
uint64_t ns_from_seconds(double seconds);

void put16(uint8_t *at, uint16_t value);
uint16_t get16(const uint8_t *at);

/* Memory set to zero; there is no way on without it, so these do not return NULL. */
void *allocate(size_t count, size_t size);
/* The part above old_count is set to zero. */
void *grow(void *memory, size_t old_count, size_t new_count, size_t size);

/* One line to stderr, then the end of the program with EXIT_RUN_FAILED. */
void fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The same, with the text of errno. */
void fatal_errno(const char *what) __attribute__((noreturn));

#endif
