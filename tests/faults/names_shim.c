/* What filesystems do to names that they should not, for tests, loaded with LD_PRELOAD; never part
 * of benchio. NAMES_FAULT, on the name NAMES_NAME, whatever its directory, is
 *
 *   lost        it is created, opened, and gone
 *   short       the last byte of it is lost when its maker closes it
 *   changed     its first byte is another when its maker closes it
 *   directory   stat says that it is one
 *   twice       it is listed twice
 *   instead     another name of its rank, of item 0, is listed in its place
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
#include "interpose.h"

#include <dirent.h>

enum { MOST = 4096 };

static int made = -1; /* the descriptor of the name that its maker has open */

/* What this process has met since the run began. */
static struct {
    char removed[PATH_MAX]; /* the directory of names that it has removed last */
    time_t until; /* a name lingers */
    int survived; /* a name that was to be removed */
    struct dirent seen[MOST]; /* when it listed first */
    int known, is_listed, listings, next;
    DIR *replayed;
} met;

/* Another run of the same process begins, with another fault; see many_runs.f90. */
void next_run(void)
{
    memset(&met, 0, sizeof met);
}

static int fault_is(const char *name)
{
    return is_set("NAMES_FAULT", name);
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
    int fd, mode;

    TAKE_MODE(mode, flags);
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
    if (hits("lingers", path)) {
        if (met.until == 0)
            met.until = time(NULL) + 2;
        if (time(NULL) < met.until) {
            memset(st, 0, sizeof *st);
            return 0;
        }
    }
    return NEXT(lstat)(path, st);
}

/* Whether a directory is one of benchio's, for MPI reads others. */
static int is_of_names(DIR *directory)
{
    char path[PATH_MAX];

    path_of(dirfd(directory), path);
    return strstr(path, "/metadata") != NULL || strstr(path, "/latency") != NULL;
}

struct dirent *readdir(DIR *directory)
{
    static struct dirent again;
    static int repeats;
    struct dirent *entry;

    if (!is_of_names(directory))
        return NEXT(readdir)(directory);
    if (fault_is("stale") && met.is_listed) {
        if (met.replayed != directory)
            met.next = 0;
        met.replayed = met.next < met.known ? directory : NULL;
        return met.next < met.known ? &met.seen[met.next++] : NULL;
    }
    if (repeats) {
        repeats = 0;
        return &again;
    }
    entry = NEXT(readdir)(directory);
    if (entry != NULL
        && (hits("hidden", entry->d_name) || (hits("unseen", entry->d_name) && met.listings > 1)))
        entry = NEXT(readdir)(directory);
    if (entry != NULL && hits("instead", entry->d_name)) {
        again = *entry;
        memset(strchr(again.d_name, '.') + 1, '0', strlen(strchr(again.d_name, '.') + 1));
        return &again;
    }
    if (entry == NULL) {
        met.is_listed = met.known > 0;
        met.listings++;
        return NULL;
    }
    if (fault_is("stale") && met.known < MOST)
        met.seen[met.known++] = *entry;
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
    while (hits("hangs", path))
        pause();
    if ((hits("survives", path) || hits("unseen", path)) && !met.survived++)
        return 0;
    return NEXT(unlink)(path);
}

int rmdir(const char *path)
{
    if (hits("remains", path) && !met.survived++)
        return 0;
    if (strstr(path, "/metadata") != NULL && strchr(strstr(path, "/metadata") + 1, '/') == NULL)
        snprintf(met.removed, sizeof met.removed, "%s", path);
    return NEXT(rmdir)(path);
}

int mkdir(const char *path, mode_t mode)
{
    if (hits("full", path)) {
        errno = ENOSPC;
        return -1;
    }
    if (fault_is("remade") && strcmp(path, met.removed) == 0) {
        errno = ESTALE;
        return -1;
    }
    return NEXT(mkdir)(path, mode);
}
