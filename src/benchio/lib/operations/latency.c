/* The calls that latency.f90 times: each by the monotonic clock, by itself. */
#define _GNU_SOURCE

#include "benchio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As latency.f90 numbers them. */
enum action { NOTHING, OPEN, STAT, CREATE, WRITE, READ, LIST };

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Counts the entries of a directory, and adds up the numbers that their names end with; -1: a name
 * has none. */
static int list(const char *path, int64_t *entries, int64_t *numbers)
{
    const struct dirent *entry;
    DIR *directory = opendir(path);
    int error;

    if (directory == NULL)
        return errno;
    while (errno = 0, (entry = readdir(directory)) != NULL) {
        char *end = NULL;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ++*entries;
        *numbers += strtoll(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0')
            *numbers = INT64_MIN / 2;
    }
    error = errno;
    closedir(directory);
    return error;
}

/* Does one thing to a path, or to what *fd is open on, and says how many nanoseconds it took.
 * amount is the bytes of a file that was looked at, written or read, or the entries of a directory,
 * of which numbers is the sum. Returns 0 or errno. */
int benchio_timed_call(int32_t action, const char *path, int32_t *fd, void *block, int64_t bytes,
                       int64_t *amount, int64_t *numbers, int64_t *ns)
{
    struct stat st = {0};
    int error = 0;
    int64_t began;

    *amount = 0;
    *numbers = 0;
    errno = 0;
    began = clock_ns();
    switch (action) {
    case OPEN:
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        error = *fd < 0 ? errno : 0;
        break;
    case STAT:
        error = stat(path, &st) == 0 ? 0 : errno;
        break;
    case CREATE:
        *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        error = *fd < 0 ? errno : 0;
        break;
    case WRITE:
        *amount = pwrite(*fd, block, (size_t)bytes, 0);
        error = *amount < 0 ? errno : benchio_raw_sync(*fd);
        break;
    case READ:
        *amount = pread(*fd, block, (size_t)bytes, 0);
        error = *amount < 0 ? errno : 0;
        break;
    case LIST:
        error = list(path, amount, numbers);
        break;
    default: /* what the clock itself takes */
        break;
    }
    *ns = clock_ns() - began;
    if (action == STAT)
        *amount = st.st_size;
    return error;
}

/* Waits until the clock says so many nanoseconds, and returns the nanoseconds that it says then; 0
 * does not wait. */
int64_t benchio_wait_until(int64_t ns)
{
    const struct timespec until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    if (ns > 0)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
    return clock_ns();
}
