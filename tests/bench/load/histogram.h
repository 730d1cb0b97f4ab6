/* Times in nanoseconds, counted in buckets that are 1/64 of their value wide (1.6 %).
 *
 * Linear below 128 ns and 64 buckets per power of two above, so any 64-bit time has its bucket: a
 * percentile costs no sorting and no memory per sample.
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_SUB_BUCKETS (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_BUCKETS)

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t max_ns;
    /* Samples of 35 to 50 ms: where Nagle's algorithm against a delayed ACK (40 ms) shows. */
    uint64_t near_40ms;
};

void histogram_add(struct histogram *histogram, uint64_t ns);
/* Without samples: 0. */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile);
double histogram_share_near_40ms(const struct histogram *histogram);
/* The smallest time that falls into the bucket. */
uint64_t histogram_bucket_ns(unsigned bucket);

#endif
