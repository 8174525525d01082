/* A monotonic clock that goes in steps of CLOCK_STEP_NS nanoseconds, or stands still if those are 0,
 * and is CLOCK_AHEAD_S seconds ahead; on rank CLOCK_RANK alone if that is set. For tests, loaded with
 * LD_PRELOAD, never part of benchio. */
#include "interpose.h"

int clock_gettime(clockid_t id, struct timespec *time)
{
    const char *step = getenv("CLOCK_STEP_NS"), *rank = getenv("CLOCK_RANK");
    const char *ahead = getenv("CLOCK_AHEAD_S");
    int code = NEXT(clock_gettime)(id, time);

    if (id != CLOCK_MONOTONIC || step == NULL || (rank != NULL && !is_set("OMPI_COMM_WORLD_RANK", rank)))
        return code;
    int64_t ns = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec, length = atoll(step);

    ns -= length == 0 ? ns : ns % length;
    time->tv_sec = ns / 1000000000 + (ahead == NULL ? 0 : atoll(ahead));
    time->tv_nsec = ns % 1000000000;
    return code;
}
