#include "histogram.h"

#include "base.h"

#define NEAR_40MS_FROM (35 * NS_PER_MS)
#define NEAR_40MS_TO (50 * NS_PER_MS)

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 2 * HISTOGRAM_SUB_BUCKETS)
        return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns) - HISTOGRAM_SUB_BITS;
    return exponent * HISTOGRAM_SUB_BUCKETS + (unsigned)(ns >> exponent);
}

uint64_t histogram_bucket_ns(unsigned bucket)
{
    if (bucket < 2 * HISTOGRAM_SUB_BUCKETS)
        return bucket;
    unsigned exponent = bucket / HISTOGRAM_SUB_BUCKETS - 1;
    return (uint64_t)(bucket - exponent * HISTOGRAM_SUB_BUCKETS) << exponent;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->buckets[bucket_of(ns)]++;
    histogram->count++;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
    if (ns >= NEAR_40MS_FROM && ns <= NEAR_40MS_TO)
        histogram->near_40ms++;
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile)
{
    uint64_t wanted = (uint64_t)(quantile * (double)histogram->count);
    uint64_t seen = 0;
    if (histogram->count == 0)
        return 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen > wanted)
            return histogram_bucket_ns(bucket);
    }
    return histogram->max_ns;
}

double histogram_share_near_40ms(const struct histogram *histogram)
{
    if (histogram->count == 0)
        return 0;
    return (double)histogram->near_40ms / (double)histogram->count;
}
