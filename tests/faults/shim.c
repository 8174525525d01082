/* A fault injector for tests, loaded with LD_PRELOAD; never part of benchio.
 *
 * FAULT=flip       after the first MPI_File_close, inverts the middle byte of FAULT_FILE
 * FAULT=truncate   after the first MPI_File_close, halves FAULT_FILE
 * FAULT=appear     after the first MPI_File_close, there is a FAULT_FILE of somebody else's
 * FAULT=space      statfs reports free space that is not there
 * FAULT=fsync      on rank 0, fsync of FAULT_FILE fails with EIO
 *
 * MPI_File_close and PMPI_File_close are both exported: HDF5 calls the first, Open MPI's Fortran
 * bindings the second. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static int fault_is(const char *name)
{
    const char *fault = getenv("FAULT");

    return fault != NULL && strcmp(fault, name) == 0;
}

static int rank(void)
{
    int value;

    PMPI_Comm_rank(MPI_COMM_WORLD, &value);
    return value;
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
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);

    need(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1, "shim: FAULT_FILE");
    close(fd);
}

static void damage(const char *path)
{
    int fd = open(path, O_RDWR);
    struct stat file;
    unsigned char byte;

    need(fd >= 0 && fstat(fd, &file) == 0 && file.st_size > 1, "shim: FAULT_FILE");
    if (fault_is("truncate")) {
        need(ftruncate(fd, file.st_size / 2) == 0, "shim: ftruncate");
    } else {
        need(pread(fd, &byte, 1, file.st_size / 2) == 1, "shim: pread");
        byte = (unsigned char)~byte;
        need(pwrite(fd, &byte, 1, file.st_size / 2) == 1, "shim: pwrite");
    }
    close(fd);
}

static int close_and_intervene(MPI_File *file)
{
    static int closed = 0;
    int (*next)(MPI_File *) = (int (*)(MPI_File *))dlsym(RTLD_NEXT, "PMPI_File_close");
    int code = next(file);

    if (closed++ == 0) {
        PMPI_Barrier(MPI_COMM_WORLD); /* nobody writes any more */
        if (rank() == 0 && (fault_is("flip") || fault_is("truncate")))
            damage(getenv("FAULT_FILE"));
        if (rank() == 0 && fault_is("appear"))
            appear(getenv("FAULT_FILE"));
        PMPI_Barrier(MPI_COMM_WORLD); /* nobody reads yet */
    }
    return code;
}

int MPI_File_close(MPI_File *file)
{
    return close_and_intervene(file);
}

int PMPI_File_close(MPI_File *file)
{
    return close_and_intervene(file);
}

int statfs(const char *path, struct statfs *filesystem)
{
    int (*next)(const char *, struct statfs *) =
        (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    int code = next(path, filesystem);

    if (code == 0 && fault_is("space"))
        filesystem->f_bfree = filesystem->f_bavail = 1 << 20;
    return code;
}

static int is_fault_file(int fd)
{
    const char *path = getenv("FAULT_FILE");
    struct stat wanted, open_file;

    return path != NULL && stat(path, &wanted) == 0 && fstat(fd, &open_file) == 0
        && wanted.st_dev == open_file.st_dev && wanted.st_ino == open_file.st_ino;
}

int fsync(int fd)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

    if (fault_is("fsync") && rank() == 0 && is_fault_file(fd)) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}
