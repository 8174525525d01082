/* What filesystems do to names that they should not, for tests, loaded with LD_PRELOAD; never part
 * of benchio. NAMES_FAULT, on the name NAMES_NAME, whatever its directory, is
 *
 *   lost        it is created, opened, and gone
 *   short       the last byte of it is lost when its maker closes it
 *   changed     its first byte is another when its maker closes it
 *   directory   stat says that it is one
 *   twice       it is listed twice
 *   stranger    it is listed once more under a name that nobody gave
 *   hidden      it is not listed
 *   stale       a directory is listed as this process has first seen it
 *   unrenamed   rename does nothing and succeeds
 *   copied      rename leaves the old name as well
 *   survives    unlink does nothing and succeeds, the first time
 *   unseen      likewise, and it is not listed when a process lists for the third time
 *   remains     rmdir does likewise
 *   lingers     lstat finds it for a second, as a client may that has not yet heard that it is gone
 *   remade      a directory of names is not made again, as by a client that knows the old one
 *   full        mkdir fails with ENOSPC
 *   hangs       unlink never returns */
#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { MOST = 4096 };

static int made = -1; /* the descriptor of the name that its maker has open */
static char removed[PATH_MAX]; /* the directory of names that this process has removed last */

static int fault_is(const char *name)
{
    const char *fault = getenv("NAMES_FAULT");

    return fault != NULL && strcmp(fault, name) == 0;
}

static int is_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = getenv("NAMES_NAME");

    return name != NULL && strcmp(slash == NULL ? path : slash + 1, name) == 0;
}

static int hits(const char *fault, const char *path)
{
    return fault_is(fault) && is_name(path);
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;
    int fd;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    fd = NEXT(open)(path, flags, mode);
    if (fd >= 0 && flags & O_CREAT && is_name(path)) {
        made = fd;
        if (fault_is("lost"))
            NEXT(unlink)(path);
    }
    return fd;
}

int close(int fd)
{
    struct stat st;

    if (fd == made && fd >= 0) {
        made = -1;
        if (fault_is("short") && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size - 1) != 0)
            abort();
        if (fault_is("changed") && pwrite(fd, "", 1, 0) != 1)
            abort();
    }
    return NEXT(close)(fd);
}

int stat(const char *path, struct stat *st)
{
    int result = NEXT(stat)(path, st);

    if (hits("directory", path))
        st->st_mode = S_IFDIR | 0700;
    return result;
}

int lstat(const char *path, struct stat *st)
{
    static time_t until;

    if (hits("lingers", path)) {
        if (until == 0)
            until = time(NULL) + 2;
        if (time(NULL) < until) {
            memset(st, 0, sizeof *st);
            return 0;
        }
    }
    return NEXT(lstat)(path, st);
}

/* Whether a directory is one of benchio's, for MPI reads others. */
static int is_of_names(DIR *directory)
{
    char link[40], path[PATH_MAX];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(directory));
    length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
    return strstr(path, "/metadata") != NULL;
}

struct dirent *readdir(DIR *directory)
{
    static struct dirent seen[MOST], again;
    static int first_is_over, known, listings, next, repeats;
    static DIR *replayed;
    struct dirent *entry;

    if (!is_of_names(directory))
        return NEXT(readdir)(directory);
    if (fault_is("stale") && first_is_over) {
        if (replayed != directory)
            next = 0;
        replayed = next < known ? directory : NULL;
        return next < known ? &seen[next++] : NULL;
    }
    if (repeats) {
        repeats = 0;
        return &again;
    }
    entry = NEXT(readdir)(directory);
    if (entry != NULL
        && (hits("hidden", entry->d_name) || (hits("unseen", entry->d_name) && listings > 1)))
        entry = NEXT(readdir)(directory);
    if (entry == NULL) {
        first_is_over = known > 0;
        listings++;
        return NULL;
    }
    if (fault_is("stale") && known < MOST)
        seen[known++] = *entry;
    if (hits("twice", entry->d_name) || hits("stranger", entry->d_name)) {
        repeats = 1;
        again = *entry;
        if (fault_is("stranger"))
            strcpy(again.d_name, ".nfs0001");
    }
    return entry;
}

int rename(const char *from, const char *to)
{
    if (hits("unrenamed", from))
        return 0;
    if (hits("copied", from))
        return link(from, to);
    return NEXT(rename)(from, to);
}

int unlink(const char *path)
{
    static int once;

    while (hits("hangs", path))
        pause();
    if ((hits("survives", path) || hits("unseen", path)) && !once++)
        return 0;
    return NEXT(unlink)(path);
}

int rmdir(const char *path)
{
    static int once;

    if (hits("remains", path) && !once++)
        return 0;
    if (strstr(path, "/metadata") != NULL && strchr(strstr(path, "/metadata") + 1, '/') == NULL)
        snprintf(removed, sizeof removed, "%s", path);
    return NEXT(rmdir)(path);
}

int mkdir(const char *path, mode_t mode)
{
    if (hits("full", path)) {
        errno = ENOSPC;
        return -1;
    }
    if (fault_is("remade") && strcmp(path, removed) == 0) {
        errno = ESTALE;
        return -1;
    }
    return NEXT(mkdir)(path, mode);
}
