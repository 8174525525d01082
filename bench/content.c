/* How fast benchio makes and confirms what a file holds, beside what memory can do.
 *
 * usage: content FILE MIB ROUNDS. Prints lines of a round, a way and its GB/s: the ways are
 * benchio_fill, memcpy, benchio_right_bytes, memcmp, and pread of a file of so many MiB. A round has
 * all of them, each in turn the first. */
#include "benchio.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void need(int success, const char *what)
{
    if (!success) {
        perror(what);
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Reads all of a file, or writes it. */
static int64_t move(int fd, char *memory, int64_t bytes, int writes)
{
    for (int64_t at = 0; at < bytes;) {
        const ssize_t n = writes ? pwrite(fd, memory + at, (size_t)(bytes - at), at)
                                 : pread(fd, memory + at, (size_t)(bytes - at), at);

        need(n > 0, writes ? "pwrite" : "pread");
        at += n;
    }
    return bytes;
}

int main(int count, char **words)
{
    enum { FILL, COPY, CONFIRM, COMPARE, READ, WAYS };
    const struct content content = {.key = 1, .kept_bits = UINT64_MAX};

    need(count == 4, "usage: content FILE MIB ROUNDS");
    const int64_t bytes = atoll(words[2]) << 20;
    char *here = malloc((size_t)bytes), *there = malloc((size_t)bytes);
    const int fd = open(words[1], O_RDWR | O_CREAT | O_EXCL, 0600);

    need(here != NULL && there != NULL, "malloc");
    need(fd >= 0 && unlink(words[1]) == 0, words[1]);
    benchio_fill(&content, 0, bytes, here);
    memcpy(there, here, (size_t)bytes);
    move(fd, here, bytes, 1);
    for (int round = 0; round < atoi(words[3]); round++)
        for (int i = 0; i < WAYS; i++) {
            const int way = (i + round) % WAYS;
            const double began = seconds();
            int64_t right = bytes;

            if (way == FILL)
                benchio_fill(&content, 0, bytes, there);
            else if (way == COPY)
                memcpy(there, here, (size_t)bytes);
            else if (way == CONFIRM)
                right = benchio_right_bytes(&content, 0, bytes, there, 0);
            else if (way == COMPARE)
                right = memcmp(there, here, (size_t)bytes) == 0 ? bytes : 0;
            else
                right = move(fd, there, bytes, 0);
            need(right == bytes, "all bytes are right");
            printf("%d %d %.9f\n", round, way, 1e-9 * (double)bytes / (seconds() - began));
        }
    return 0;
}
