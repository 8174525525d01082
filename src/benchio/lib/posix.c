/* The few POSIX facts Fortran cannot reach by itself. Every function returns 0 or errno. */
#define _DEFAULT_SOURCE /* mincore */
#define _XOPEN_SOURCE 700

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Filesystem magic number and bytes free for this user at path. */
int benchio_statfs(const char *path, int64_t *magic, int64_t *free_bytes)
{
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return errno;
    *magic = (int64_t)(uint32_t)fs.f_type; /* some kernels sign-extend it */
    *free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_bsize;
    return 0;
}

int benchio_file_size(const char *path, int64_t *bytes)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    *bytes = (int64_t)st.st_size;
    return 0;
}

/* Whether anything has this name, a link to nothing too. */
int benchio_exists(const char *path, int32_t *exists)
{
    struct stat st;

    *exists = lstat(path, &st) == 0;
    return *exists || errno == ENOENT ? 0 : errno;
}

int benchio_remove(const char *path)
{
    return unlink(path) == 0 ? 0 : errno;
}

/* Absolute path without links, cut to size including the final NUL. */
int benchio_realpath(const char *path, char *resolved, int32_t size)
{
    char *full = realpath(path, NULL);

    if (full == NULL)
        return errno;
    if (strlen(full) >= (size_t)size) {
        free(full);
        return ENAMETOOLONG;
    }
    strcpy(resolved, full);
    free(full);
    return 0;
}

void benchio_strerror(int error, char *text, int32_t size)
{
    if (strerror_r(error, text, (size_t)size) != 0)
        snprintf(text, (size_t)size, "error %d", error);
}

/* The index-th "NAME=value" of the environment; 0 when there is no such entry. */
int benchio_environment(int32_t index, char *text, int32_t size)
{
    for (int32_t i = 0; i <= index; i++)
        if (environ[i] == NULL)
            return 0;
    snprintf(text, (size_t)size, "%s", environ[index]);
    return 1;
}

/* High-water mark of this process's resident set in bytes. */
int64_t benchio_peak_rss(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024; /* Linux counts in KiB */
}

/* Holds a directory for this process, until it ends however it ends; or says that another one
 * does. A filesystem without locks holds nothing. */
int benchio_hold_directory(const char *path, int32_t *elsewhere)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *elsewhere = 0;
    if (fd < 0)
        return errno;
    *elsewhere = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    return 0;
}

/* Asks the kernel to forget the pages of a file; what is dirty is written first. */
int benchio_drop_cache(const char *path)
{
    int fd = open(path, O_RDONLY), error;

    if (fd < 0)
        return errno;
    error = fsync(fd) == 0 ? 0 : errno;
    if (error == 0)
        error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return error;
}

/* The part of a file's pages, 0 to 1, that this node's page cache holds. */
int benchio_resident(const char *path, double *fraction)
{
    enum { window = 1 << 30 };
    const int64_t page = sysconf(_SC_PAGESIZE);
    int64_t resident = 0, total = 0;
    struct stat st;
    int error = 0, fd = open(path, O_RDONLY);
    unsigned char *pages;

    if (fd < 0)
        return errno;
    pages = malloc((size_t)(window / page));
    if (pages == NULL || fstat(fd, &st) != 0)
        error = errno;
    for (int64_t at = 0; error == 0 && at < st.st_size; at += window) {
        size_t bytes = (size_t)(st.st_size - at < window ? st.st_size - at : window);
        void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, at);

        if (map == MAP_FAILED || mincore(map, bytes, pages) != 0)
            error = errno;
        for (size_t i = 0; error == 0 && i < (bytes + (size_t)page - 1) / (size_t)page; i++) {
            resident += pages[i] & 1;
            total++;
        }
        if (map != MAP_FAILED)
            munmap(map, bytes);
    }
    free(pages);
    close(fd);
    *fraction = total > 0 ? (double)resident / (double)total : 0;
    return error;
}

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* From now on SIGUSR1, a scheduler's warning, and SIGTERM only raise a flag. */
void benchio_catch_interrupts(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int benchio_interrupted(void)
{
    return interrupted;
}

/* Now, as 2017-06-29T12:00:00Z. */
void benchio_utc_now(char *text, int32_t size)
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(text, (size_t)size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        text += n;
        bytes -= (size_t)n;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

/* A reader sees the whole text or nothing: temporary file beside path, fsync, rename. */
int benchio_write_file(const char *path, const char *text, int64_t bytes)
{
    char temporary[PATH_MAX];
    int error, fd;

    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid())
        >= (int)sizeof temporary)
        return ENAMETOOLONG;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0)
        return errno;
    error = write_all(fd, text, (size_t)bytes);
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

/* Can a result be written at path later? Leaves nothing behind. */
int benchio_probe_file(const char *path)
{
    char temporary[PATH_MAX];
    struct stat st;
    int fd;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return EISDIR;
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid())
        >= (int)sizeof temporary)
        return ENAMETOOLONG;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0)
        return errno;
    close(fd);
    return unlink(temporary) == 0 ? 0 : errno;
}

void benchio_exit(int status)
{
    exit(status);
}

/* Ends this process without closing what a library could not: HDF5 would try once more at exit. */
void benchio_exit_at_once(int status)
{
    fflush(NULL);
    _exit(status);
}
