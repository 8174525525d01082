/* A fault injector for tests, loaded with LD_PRELOAD; never part of benchio.
 *
 * FAULT_FILE is the file that is hit, FAULT_RANK the rank: a number (0) or "all". FAULT is
 *
 * between the write and the read, when benchio first asks for the size of a file that has
 * FAULT_BYTES; with FAULT_CALL=n, when it asks for the n-th time:
 *   flip       inverts the middle byte of FAULT_FILE
 *   truncate   halves FAULT_FILE
 *   appear     makes a FAULT_FILE of somebody else's; the size may be another file's
 *
 * in a call on FAULT_FILE; of writes in the one that brings this process beyond FAULT_THROUGH
 * bytes (1 MiB: more than the metadata of HDF5 and NetCDF) and all after it:
 *   open, write, sync, close    fails with errno FAULT_ERRNO (a number); a close that fails loses
 *                               half of the file, as NFS may
 *   short      writes half of what it was given, and then nothing more: a quota
 *   kill       writes half of what it was given and kills the process
 *   sleep      never returns; sleep-in-sync: of syncs
 *
 * anywhere:
 *   space      statfs reports free space that is not there */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { VECTORS = 1024 }; /* at most in a call */

static size_t written; /* by this process to FAULT_FILE */

static int fault_is(const char *name)
{
    const char *fault = getenv("FAULT");

    return fault != NULL && strcmp(fault, name) == 0;
}

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : atoi(text);
}

/* Whether it is this rank that is hit; nobody is before MPI_Init. */
static int hit(void)
{
    const char *which = getenv("FAULT_RANK");
    int initialised, finalised, rank;

    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    if (!initialised || finalised)
        return 0;
    if (which != NULL && strcmp(which, "all") == 0)
        return 1;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == number("FAULT_RANK", 0);
}

static int is_through(void)
{
    return written <= (size_t)number("FAULT_THROUGH", 1 << 20);
}

static int is_fault_file(int fd)
{
    const char *path = getenv("FAULT_FILE");
    struct stat wanted, open_file;

    return path != NULL && NEXT(stat)(path, &wanted) == 0 && fstat(fd, &open_file) == 0
        && wanted.st_dev == open_file.st_dev && wanted.st_ino == open_file.st_ino;
}

/* Whether the named call is to fail; errno is then set. */
static int fails(const char *call, int fd)
{
    if (!fault_is(call) || !is_fault_file(fd) || !hit())
        return 0;
    errno = number("FAULT_ERRNO", EIO);
    return 1;
}

/* A fault that cannot be injected must not look like one that was survived. */
static void need(int success, const char *what)
{
    if (!success) {
        perror(what);
        PMPI_Abort(MPI_COMM_WORLD, 99);
    }
}

static void appear(const char *path)
{
    static const char text[] = "somebody's";
    int fd = NEXT(open)(path, O_WRONLY | O_CREAT | O_EXCL, 0666);

    need(fd >= 0 && NEXT(write)(fd, text, sizeof text - 1) == sizeof text - 1, "shim: appear");
    NEXT(close)(fd);
}

static void damage(const char *path)
{
    int fd = NEXT(open)(path, O_RDWR);
    struct stat file;
    unsigned char byte;

    need(fd >= 0 && fstat(fd, &file) == 0 && file.st_size > 1, "shim: FAULT_FILE");
    if (fault_is("truncate")) {
        need(ftruncate(fd, file.st_size / 2) == 0, "shim: ftruncate");
    } else {
        need(pread(fd, &byte, 1, file.st_size / 2) == 1, "shim: pread");
        byte = (unsigned char)~byte;
        need(NEXT(pwrite)(fd, &byte, 1, file.st_size / 2) == 1, "shim: pwrite");
    }
    NEXT(close)(fd);
}

/* benchio asks for the size before it reads, when all have closed the file. */
int stat(const char *path, struct stat *file)
{
    static int asked;
    const char *target = getenv("FAULT_FILE");
    int code = NEXT(stat)(path, file);

    if (code != 0 || target == NULL || file->st_size < number("FAULT_BYTES", 0))
        return code;
    if (fault_is("appear")) {
        if (S_ISREG(file->st_mode) && hit() && ++asked == number("FAULT_CALL", 1))
            appear(target);
    } else if ((fault_is("flip") || fault_is("truncate")) && strcmp(path, target) == 0 && hit()
               && ++asked == number("FAULT_CALL", 1)) {
        damage(target);
        code = NEXT(stat)(path, file);
    }
    return code;
}

int statfs(const char *path, struct statfs *filesystem)
{
    int code = NEXT(statfs)(path, filesystem);

    if (code == 0 && fault_is("space"))
        filesystem->f_bfree = filesystem->f_bavail = 1 << 20;
    return code;
}

int open(const char *path, int flags, ...)
{
    const char *target = getenv("FAULT_FILE");
    va_list more;
    int mode = 0;

    if (flags & (O_CREAT | O_TMPFILE)) {
        va_start(more, flags);
        mode = va_arg(more, int);
        va_end(more);
    }
    if (fault_is("open") && (flags & O_ACCMODE) != O_RDONLY && target != NULL && strcmp(path, target) == 0
        && hit()) {
        errno = number("FAULT_ERRNO", EIO);
        return -1;
    }
    return NEXT(open)(path, flags, mode);
}

int fsync(int fd)
{
    if (fault_is("sleep-in-sync") && is_fault_file(fd) && hit())
        for (;;)
            pause();
    return fails("sync", fd) ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails("sync", fd) ? -1 : NEXT(fdatasync)(fd);
}

int close(int fd)
{
    struct stat file;
    int error;

    if (is_through() || !fails("close", fd))
        return NEXT(close)(fd);
    error = errno;
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
        need(fstat(fd, &file) == 0 && ftruncate(fd, file.st_size / 2) == 0, "shim: close");
    NEXT(close)(fd);
    errno = error;
    return -1;
}

/* How much of a write of so many bytes is to go through; -1 and errno: it fails. */
static ssize_t allowed(int fd, size_t bytes)
{
    static int cut;

    if (!fault_is("write") && !fault_is("short") && !fault_is("kill") && !fault_is("sleep")
        && !fault_is("close"))
        return (ssize_t)bytes;
    if (!is_fault_file(fd) || !hit())
        return (ssize_t)bytes;
    written += bytes;
    if (is_through() || fault_is("close"))
        return (ssize_t)bytes;
    if (fault_is("sleep"))
        for (;;)
            pause();
    if (fault_is("write") || cut) {
        errno = number("FAULT_ERRNO", EIO);
        return -1;
    }
    cut = 1;
    return (ssize_t)(bytes / 2);
}

static ssize_t done(ssize_t bytes, ssize_t wanted)
{
    if (bytes >= 0 && bytes < wanted && fault_is("kill"))
        raise(SIGKILL);
    return bytes;
}

static ssize_t length(const struct iovec *vectors, int count)
{
    ssize_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += (ssize_t)vectors[i].iov_len;
    return bytes;
}

/* The first so many bytes of vectors; their number. */
static int shorten(const struct iovec *vectors, ssize_t bytes, struct iovec *shorter)
{
    int count = 0;

    for (; bytes > 0 && count < VECTORS; count++) {
        shorter[count] = vectors[count];
        if ((ssize_t)shorter[count].iov_len > bytes)
            shorter[count].iov_len = (size_t)bytes;
        bytes -= (ssize_t)shorter[count].iov_len;
    }
    return count;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    ssize_t part = allowed(fd, bytes);

    return part < 0 ? part : done(NEXT(write)(fd, data, (size_t)part), (ssize_t)bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    ssize_t part = allowed(fd, bytes);

    return part < 0 ? part : done(NEXT(pwrite)(fd, data, (size_t)part, offset), (ssize_t)bytes);
}

ssize_t writev(int fd, const struct iovec *vectors, int count)
{
    struct iovec shorter[VECTORS];
    ssize_t whole = length(vectors, count), part = allowed(fd, (size_t)whole);

    if (part < 0)
        return part;
    return done(NEXT(writev)(fd, shorter, shorten(vectors, part, shorter)), whole);
}

ssize_t pwritev(int fd, const struct iovec *vectors, int count, off_t offset)
{
    struct iovec shorter[VECTORS];
    ssize_t whole = length(vectors, count), part = allowed(fd, (size_t)whole);

    if (part < 0)
        return part;
    return done(NEXT(pwritev)(fd, shorter, shorten(vectors, part, shorter), offset), whole);
}
