/* What libraries free within a call is there for the next, without page faults. */
#include <string.h>
#include <sys/resource.h>

#include "benchio.h"
#include "expect.h"

/* The page faults of a library's buffer of so many bytes, which it frees at the end. */
static long faults_of(size_t bytes)
{
    struct rusage before, after;
    char *volatile buffer;

    getrusage(RUSAGE_SELF, &before);
    buffer = malloc(bytes);
    expect(buffer != NULL, "there is memory");
    memset(buffer, 1, bytes);
    free(buffer);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

int main(void)
{
    const size_t bytes = (size_t)16 << 20;
    long first;

    benchio_keep_freed_memory();
    first = faults_of(bytes);
    expect(faults_of(bytes) * 100 < first, "the second buffer has the pages of the first");
    return 0;
}
