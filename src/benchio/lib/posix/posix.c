/* POSIX for posix.f90. Functions return 0 or errno, unless they say otherwise. */
#define _XOPEN_SOURCE 700

#include "benchio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

extern char **environ;

/* Keep what libraries free within a call: else each write would pay the page faults of their
 * buffers, or not, by what was freed before. These are the bounds that glibc itself comes to as an
 * application frees its arrays (mallopt(3), M_MMAP_THRESHOLD). */
void benchio_keep_freed_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

/* An extended attribute of a file or directory; length 0 if it has none. */
int benchio_get_attribute(const char *path, const char *name, void *bytes, int32_t size,
                          int32_t *length)
{
    ssize_t found = lgetxattr(path, name, bytes, (size_t)size);

    *length = found < 0 ? 0 : (int32_t)found;
    if (found >= 0 || errno == ENODATA || errno == ENOTSUP)
        return 0;
    return errno;
}

int benchio_set_attribute(const char *path, const char *name, const char *value)
{
    return lsetxattr(path, name, value, strlen(value), 0) == 0 ? 0 : errno;
}

int benchio_file_size(const char *path, int64_t *bytes)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    *bytes = (int64_t)st.st_size;
    return 0;
}

int benchio_exists(const char *path, int64_t *exists)
{
    struct stat st;

    *exists = lstat(path, &st) == 0;
    return *exists || errno == ENOENT ? 0 : errno;
}

/* resolved has room for PATH_MAX. */
int benchio_real_path(const char *path, char *resolved, int32_t size)
{
    (void)size;
    return realpath(path, resolved) != NULL ? 0 : errno;
}

int benchio_unlink(const char *path)
{
    return unlink(path) == 0 ? 0 : errno;
}

int benchio_rmdir(const char *path)
{
    return rmdir(path) == 0 ? 0 : errno;
}

int benchio_make_directory(const char *path)
{
    return mkdir(path, S_IRWXU) == 0 ? 0 : errno;
}

int benchio_make_private(const char *path)
{
    return chmod(path, S_IRWXU) == 0 ? 0 : errno;
}

int benchio_inode(const char *path, char *digits, int32_t size)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    snprintf(digits, (size_t)size, "%ju", (uintmax_t)st.st_ino);
    return 0;
}

/* Removes all whose paths begin so, up to the next slash. 0, or the errno of the first that stays. */
static int remove_beginning(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const int before = (int)(name - path); /* characters of the folder */
    const size_t length = strlen(name);
    char folder[PATH_MAX], companion[PATH_MAX];
    struct dirent *entry;
    int error = 0, is_done = 0;
    DIR *directory;

    snprintf(folder, sizeof folder, "%.*s", before, path);
    if ((directory = opendir(folder)) == NULL)
        return errno;
    /* What is removed while names are read may hide others from some filesystems. */
    while (error == 0 && !is_done) {
        is_done = 1;
        rewinddir(directory);
        while (error == 0) {
            errno = 0;
            entry = readdir(directory);
            if (entry == NULL) {
                error = errno;
                break;
            }
            if (strncmp(entry->d_name, name, length) != 0 || strcmp(entry->d_name, ".") == 0
                || strcmp(entry->d_name, "..") == 0)
                continue;
            if (snprintf(companion, sizeof companion, "%s%s", folder, entry->d_name) >= PATH_MAX)
                error = ENAMETOOLONG;
            else if (unlink(companion) == 0)
                is_done = 0;
            else if (errno != ENOENT)
                error = errno;
        }
    }
    closedir(directory);
    return error;
}

/* Removes all whose paths begin with the path and the mark, unless that is empty, and then the file
 * at path, or the directory with the files in it. 0, or the errno of the first that stays. */
int benchio_remove_family(const char *path, const char *mark)
{
    char beginning[PATH_MAX];
    int error = 0;

    if (snprintf(beginning, sizeof beginning, "%s%s", path, mark) >= PATH_MAX)
        return ENAMETOOLONG;
    if (mark[0] != '\0')
        error = remove_beginning(beginning);
    if (unlink(path) == 0)
        return error;
    if (errno != EISDIR && errno != EPERM)
        return error != 0 ? error : errno;
    if (snprintf(beginning, sizeof beginning, "%s/", path) >= PATH_MAX)
        return ENAMETOOLONG;
    error = remove_beginning(beginning);
    return rmdir(path) != 0 && error == 0 ? errno : error;
}

/* The name of something that is in a directory, cut to size; empty if there is nothing. */
int benchio_first_entry(const char *path, char *name, int32_t size)
{
    DIR *directory = opendir(path);
    struct dirent *entry;

    name[0] = '\0';
    if (directory == NULL)
        return errno;
    while (name[0] == '\0' && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            snprintf(name, (size_t)size, "%s", entry->d_name);
    closedir(directory);
    return 0;
}

int benchio_strerror(int error, char *text, int32_t size)
{
    if (strerror_r(error, text, (size_t)size) != 0)
        snprintf(text, (size_t)size, "error %d", error);
    return 0;
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

/* Seconds of a clock that nobody sets. */
double benchio_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Now, as 2017-06-29T12:00:00.123Z. */
void benchio_utc_now(char *text, int32_t size)
{
    char seconds[32];
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, (size_t)size, "%s.%03dZ", seconds, (int)(now.tv_nsec / 1000000));
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

/* To stable storage: the names in an open directory. Some filesystems have no fsync of one. */
int benchio_sync_names(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
}

/* The same of these directories, each ended by NUL, the last by two. */
int benchio_sync_directories(const char *directories)
{
    int error = 0;

    for (const char *name = directories; error == 0 && *name != '\0'; name += strlen(name) + 1) {
        int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        error = fd < 0 ? errno : benchio_sync_names(fd);
        if (fd >= 0)
            close(fd);
    }
    return error;
}

/* Makes a temporary file beside path; temporary has room for PATH_MAX. Returns its descriptor or
 * -errno. */
static int make_temporary(const char *path, char *temporary)
{
    int fd;

    if (snprintf(temporary, PATH_MAX, "%s.%ld.tmp", path, (long)getpid()) >= PATH_MAX)
        return -ENAMETOOLONG;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

/* A reader sees the whole text or nothing, after a power cut too: temporary file beside path,
 * fsync, rename, fsync of their directory. */
int benchio_write_file(const char *path, const char *text, int64_t bytes)
{
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX + 1] = ".", temporary[PATH_MAX];
    int error, fd = make_temporary(path, temporary);

    if (fd < 0)
        return -fd;
    error = write_all(fd, text, (size_t)bytes);
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0) {
        unlink(temporary);
        return error;
    }
    if (slash != NULL)
        snprintf(directory, PATH_MAX, "%.*s", (int)(slash - path) + 1, path);
    directory[strlen(directory) + 1] = '\0';
    error = benchio_sync_directories(directory);
    if (error != 0)
        unlink(path);
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
    fd = make_temporary(path, temporary);
    if (fd < 0)
        return -fd;
    close(fd);
    return unlink(temporary) == 0 ? 0 : errno;
}

/* What a small write meets in a new file at path: 0 or errno. The file has lost its name before it
 * is written, so that nothing is left of it even if the write never returns. */
int benchio_probe_write(const char *path)
{
    static char block[1 << 20];
    int error, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    unlink(path);
    error = write_all(fd, block, sizeof block);
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* What a byte meets that makes the file at path so large: 0 or errno; 0 if there is no such file. A
 * quota of CephFS goes by how much a file would grow: what is small, or in a file that has lost its
 * name, still has room. */
int benchio_probe_end(const char *path, int64_t bytes)
{
    int error = 0, fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT || errno == EISDIR ? 0 : errno;
    if (pwrite(fd, "", 1, bytes - 1) < 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* Whether a message says itself which of these errors a write has met. */
int benchio_names_error(const char *message)
{
    static const int errors[] = {EACCES, EDQUOT, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM,
                                 EROFS, ESTALE};
    char text[256];

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        benchio_strerror(errors[i], text, sizeof text);
        if (strstr(message, text) != NULL)
            return 1;
    }
    return 0;
}
