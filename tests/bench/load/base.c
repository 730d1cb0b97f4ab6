#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t ns_from_seconds(double seconds)
{
    return (uint64_t)(seconds * (double)NS_PER_S);
}

void put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        fatal("out of memory for %zu times %zu bytes", count, size);
    return memory;
}

void *grow(void *memory, size_t old_count, size_t new_count, size_t size)
{
    uint8_t *grown = realloc(memory, new_count * size);
    if (grown == NULL)
        fatal("out of memory for %zu times %zu bytes", new_count, size);
    memset(grown + old_count * size, 0, (new_count - old_count) * size);
    return grown;
}

void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_RUN_FAILED);
}

void fatal_errno(const char *what)
{
    fatal("%s: %s", what, strerror(errno));
}
