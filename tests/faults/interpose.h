/* What the fault injectors of this folder share. Each is loaded with LD_PRELOAD, for tests, and
 * stands before functions of the C library, of MPI and of HDF5; none is ever part of benchio. */
#pragma once
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* The function that one of the same name here stands before. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The mode among the arguments of open, which has one only if it may make a file. */
#define TAKE_MODE(mode, flags)                                            \
    do {                                                                  \
        va_list more;                                                     \
        va_start(more, flags);                                            \
        mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;   \
        va_end(more);                                                     \
    } while (0)

/* Whether a variable of the environment has this value. */
static inline int is_set(const char *variable, const char *value)
{
    const char *text = getenv(variable);

    return text != NULL && strcmp(text, value) == 0;
}

/* The path of an open file; empty: it has none. */
static inline void path_of(int fd, char path[PATH_MAX])
{
    char link[40];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
}
