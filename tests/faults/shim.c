/* A fault injector for tests, loaded with LD_PRELOAD; never part of benchio.
 *
 * FAULT_FILE is the file that is hit, a shell pattern of its whole path; FAULT_RANK the rank: a
 * number (0) or "all". FAULT is
 *
 * after benchio's own sync of FAULT_FILE, which comes when every library has closed it; with
 * FAULT_CALL=n after this process's n-th:
 *   flip       inverts the middle byte of FAULT_FILE
 *   truncate   halves it
 *   command    runs FAULT_COMMAND, which finds the file's path in FAULT_PATH
 *
 * in a call on FAULT_FILE; of writes in the one that brings this process beyond FAULT_THROUGH
 * bytes (1 MiB: more than the metadata of HDF5 and NetCDF) and all after it:
 *   open, write, sync, close, read   fails with errno FAULT_ERRNO (a number); a close that fails loses
 *                               half of the file, as NFS may; a read is benchio's own, by pread
 *   direct     the same, of an open with O_DIRECT alone
 *   short      writes half of what it was given, and then nothing more: a quota
 *   kill       writes half of what it was given and kills the process
 *   end        ends the process as a library may: FAULT_END is MPI_Abort, abort, exit, _exit, _Exit,
 *              quick_exit, hang, or the number of a signal
 *   sleep      never returns, not even for a signal, as a call that the kernel does not let go;
 *              sleep-in-sync: of syncs
 *
 * of FAULT_FILE's pages:
 *   cached     stay where they are, whatever posix_fadvise is asked for, after this process's first
 *              FAULT_CALL syncs (1), or mincore says so, for the kernel may take them all the same;
 *              and O_DIRECT, which the filesystem took, is refused when it is read with
 *   ignored    are made by every read, although O_DIRECT was taken
 *   unknown    stay likewise, and FAULT_RANK does not learn that they are in memory
 *   unsynced   are not written by any fsync
 *
 * when it is loaded:
 *   load       ends the process as a library may, see `end`
 *
 * after the result was written:
 *   finalize   the same in MPI_Finalize
 *   destructor the same when the libraries are unloaded
 *
 * anywhere:
 *   thread     benchio's first thread, its watchdog, cannot be made
 *   single     MPI knows no threads
 *   space      statfs reports free space that is not there */
#include "interpose.h"

#include <fnmatch.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

/* By this process, of FAULT_FILE, since the run began. */
static size_t written;
static int is_cut; /* a write was short */
static int syncs, syncs_by_benchio;

/* Another run of the same process begins, with another fault; see many_runs.f90. */
void next_run(void)
{
    void (*next)(void) = (void (*)(void))dlsym(RTLD_NEXT, "next_run");

    written = 0;
    is_cut = syncs = syncs_by_benchio = 0;
    if (next != NULL)
        next();
}

static int fault_is(const char *name)
{
    return is_set("FAULT", name);
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

static int is_fault_path(const char *path)
{
    const char *pattern = getenv("FAULT_FILE");

    return pattern != NULL && fnmatch(pattern, path, FNM_PATHNAME) == 0;
}

static int is_fault_file(int fd)
{
    char path[PATH_MAX];

    path_of(fd, path);
    return is_fault_path(path);
}

/* Whether a call comes from benchio itself, be it through the stand-in for Lustre, and not from a
 * library below it. */
static int by_benchio(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0
        && (strcmp(info.dli_fname, program_invocation_name) == 0
            || strstr(info.dli_fname, "lustre_shim") != NULL);
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

static void never_return(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
}

/* Ends the process as a library may, with code 9 where there is one. */
static void end_process(void)
{
    const char *how = getenv("FAULT_END");

    if (strcmp(how, "MPI_Abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exit") == 0)
        exit(9);
    if (strcmp(how, "_exit") == 0)
        _exit(9);
    if (strcmp(how, "_Exit") == 0)
        _Exit(9);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(9);
    if (strcmp(how, "hang") == 0)
        never_return();
    raise(atoi(how));
}

int PMPI_Finalize(void)
{
    if (fault_is("finalize") && hit())
        end_process();
    return NEXT(PMPI_Finalize)();
}

static __attribute__((constructor)) void load(void)
{
    if (fault_is("load") && strcmp(program_invocation_short_name, "benchio") == 0)
        end_process();
}

static __attribute__((destructor)) void unload(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (fault_is("destructor") && rank != NULL && atoi(rank) == number("FAULT_RANK", 0))
        end_process();
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
        need(NEXT(pread)(fd, &byte, 1, file.st_size / 2) == 1, "shim: pread");
        byte = (unsigned char)~byte;
        need(NEXT(pwrite)(fd, &byte, 1, file.st_size / 2) == 1, "shim: pwrite");
    }
    NEXT(close)(fd);
}

/* benchio has made the file stable; what becomes of it now, only a witness can tell. */
static void after_sync(int fd)
{
    char path[PATH_MAX];

    if (!fault_is("flip") && !fault_is("truncate") && !fault_is("command"))
        return;
    if (!is_fault_file(fd) || !hit() || ++syncs_by_benchio != number("FAULT_CALL", 1))
        return;
    path_of(fd, path);
    if (fault_is("command")) {
        need(setenv("FAULT_PATH", path, 1) == 0 && unsetenv("LD_PRELOAD") == 0, "shim: setenv");
        need(system(getenv("FAULT_COMMAND")) == 0, "shim: FAULT_COMMAND");
    } else {
        damage(path);
    }
}

int pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument)
{
    if (fault_is("thread") && by_benchio(__builtin_return_address(0)) && hit())
        return EAGAIN;
    return NEXT(pthread_create)(thread, attributes, work, argument);
}

int PMPI_Init_thread(int *count, char ***arguments, int wanted, int *given)
{
    int code = NEXT(PMPI_Init_thread)(count, arguments, wanted, given);

    if (fault_is("single"))
        *given = MPI_THREAD_SINGLE;
    return code;
}

int statfs(const char *path, struct statfs *filesystem)
{
    int code = NEXT(statfs)(path, filesystem);

    if (code == 0 && fault_is("space"))
        filesystem->f_bfree = filesystem->f_bavail = 1 << 20;
    return code;
}

static int pages_stay(void)
{
    return (fault_is("cached") || fault_is("unknown")) && syncs <= number("FAULT_CALL", 1);
}

int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    if (pages_stay() && is_fault_file(fd))
        return 0;
    return NEXT(posix_fadvise)(fd, offset, bytes, advice);
}

int mincore(void *pages, size_t bytes, unsigned char *are_there)
{
    if (fault_is("unknown") && hit()) {
        errno = ENOSYS;
        return -1;
    }
    if (pages_stay() && syncs > 0) {
        memset(are_there, 1, (bytes + (size_t)getpagesize() - 1) / (size_t)getpagesize());
        return 0;
    }
    return NEXT(mincore)(pages, bytes, are_there);
}

int open(const char *path, int flags, ...)
{
    int mode;

    TAKE_MODE(mode, flags);
    if (((fault_is("open") && (flags & O_ACCMODE) != O_RDONLY)
            || (fault_is("direct") && flags & O_DIRECT)) && is_fault_path(path) && hit()) {
        errno = number("FAULT_ERRNO", EIO);
        return -1;
    }
    if (fault_is("ignored") && is_fault_path(path))
        flags &= ~O_DIRECT;
    return NEXT(open)(path, flags, mode);
}

int fsync(int fd)
{
    int code;

    if (fault_is("sleep-in-sync") && is_fault_file(fd) && hit())
        never_return();
    if (fails("sync", fd))
        return -1;
    if (is_fault_file(fd)) {
        syncs++;
        if (fault_is("unsynced"))
            return 0;
    }
    code = NEXT(fsync)(fd);
    if (code == 0 && by_benchio(__builtin_return_address(0)))
        after_sync(fd);
    return code;
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
    if (!fault_is("write") && !fault_is("short") && !fault_is("kill") && !fault_is("sleep")
        && !fault_is("close") && !fault_is("end"))
        return (ssize_t)bytes;
    if (!is_fault_file(fd) || !hit())
        return (ssize_t)bytes;
    written += bytes;
    if (is_through() || fault_is("close"))
        return (ssize_t)bytes;
    if (fault_is("sleep"))
        never_return();
    if (fault_is("end"))
        end_process();
    if (fault_is("write") || is_cut) {
        errno = number("FAULT_ERRNO", EIO);
        return -1;
    }
    is_cut = 1;
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

/* What goes through of the first of several vectors, where not all of them do. */
static ssize_t first_of(const struct iovec *vectors, ssize_t part)
{
    return part < (ssize_t)vectors[0].iov_len ? part : (ssize_t)vectors[0].iov_len;
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

/* HDF5's threads call it so for the subfiles. */
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
    __attribute__((alias("pwrite")));

ssize_t writev(int fd, const struct iovec *vectors, int count)
{
    ssize_t whole = length(vectors, count), part = allowed(fd, (size_t)whole);

    if (part < 0 || part == whole)
        return part < 0 ? part : NEXT(writev)(fd, vectors, count);
    return done(NEXT(write)(fd, vectors[0].iov_base, (size_t)first_of(vectors, part)), whole);
}

ssize_t pwritev(int fd, const struct iovec *vectors, int count, off_t at)
{
    ssize_t whole = length(vectors, count), part = allowed(fd, (size_t)whole);

    if (part < 0 || part == whole)
        return part < 0 ? part : NEXT(pwritev)(fd, vectors, count, at);
    return done(NEXT(pwrite)(fd, vectors[0].iov_base, (size_t)first_of(vectors, part), at), whole);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    if (by_benchio(__builtin_return_address(0)) && fails("read", fd))
        return -1;
    if (fault_is("cached") && is_fault_file(fd) && fcntl(fd, F_GETFL) & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return NEXT(pread)(fd, data, bytes, offset);
}
