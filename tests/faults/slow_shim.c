/* Makes I/O slow, as faults of libraries and nodes do; for tests, loaded with LD_PRELOAD, never part
 * of benchio. All that is written stays right. SLOW is what is slow, by SLOW_S seconds:
 *
 *   open                    each that makes a file; with SLOW_RANK=n on rank n only
 *   reopen                  each of a file that is there, to write: benchio's own, before it syncs
 *   fsync, fadvise          each; with SLOW_RANK=n on rank n only
 *   barrier                 each of benchio's own, once all have come; with SLOW_RANK=n on rank n only
 *   gmtime_r                each: benchio's look at the date before a file's clock starts; with
 *                           SLOW_RANK=n on rank n only
 *   H5Fclose, H5Fflush      each call on a file that was written
 *   asking                  each question to HDF5 about how it has opened a file or moved data
 *   nc_enddef               each call
 *   MPI_File_set_size       each call. HDF5 once set the size of every file that it had written; now
 *                           only if the file is too short, so it is told that the last byte lacks
 *   MPI_File_write_at_all   each MiB of a rank's collective write; with SLOW_RANK=n on rank n only
 *
 *   metadata                each piece of HDF5's metadata that a rank writes by itself: all that there
 *                           are, for every rank writes its part, as if nobody had asked for collective
 *                           metadata. Of a few kilobytes on a disk nobody would see it
 *
 * or what is asked for and not done:
 *
 *   independent             HDF5's transfers, and so NetCDF's, are independent instead of collective
 *
 * Both names of an MPI call are here: HDF5 calls MPI_X, the Fortran bindings PMPI_X. */
#include "interpose.h"

#include <mpi.h>
#include <stdbool.h>

static int slow(const char *what)
{
    return is_set("SLOW", what);
}

/* SLOW_S seconds, so many times; a shim without it would be a fault that nobody could find. */
static void delay(double times)
{
    const char *text = getenv("SLOW_S");
    double seconds = text == NULL ? 0 : times * atof(text);
    struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};

    if (text == NULL)
        PMPI_Abort(MPI_COMM_WORLD, 99);
    nanosleep(&left, NULL);
}

/* Whether this rank is one of the slow; none is outside of MPI. */
static int is_slow_rank(void)
{
    const char *which = getenv("SLOW_RANK");
    int initialised, finalised, rank;

    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    if (!initialised || finalised)
        return 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return which == NULL || rank == atoi(which);
}

struct tm *gmtime_r(const time_t *clock, struct tm *utc)
{
    if (slow("gmtime_r") && is_slow_rank())
        delay(1);
    return NEXT(gmtime_r)(clock, utc);
}

int open(const char *path, int flags, ...)
{
    int mode;

    TAKE_MODE(mode, flags);
    if (slow(flags & O_CREAT ? "open" : (flags & O_ACCMODE) == O_WRONLY ? "reopen" : "")
        && strstr(path, "/benchio.") != NULL && is_slow_rank())
        delay(1);
    return NEXT(open)(path, flags, mode);
}

int fsync(int fd)
{
    if (slow("fsync") && is_slow_rank())
        delay(1);
    return NEXT(fsync)(fd);
}

int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    if (slow("fadvise") && is_slow_rank())
        delay(1);
    return NEXT(posix_fadvise)(fd, offset, bytes, advice);
}

int PMPI_Barrier(MPI_Comm comm)
{
    int code = NEXT(PMPI_Barrier)(comm);

    if (slow("barrier") && is_slow_rank())
        delay(1);
    return code;
}

int H5Fget_intent(int64_t file, unsigned *flags); /* HDF5's own */

int H5Fclose(int64_t file)
{
    unsigned flags;

    if (slow("H5Fclose") && NEXT(H5Fget_intent)(file, &flags) >= 0 && (flags & 1)) /* H5F_ACC_RDWR */
        delay(1);
    return NEXT(H5Fclose)(file);
}

int H5Fflush(int64_t file, int scope)
{
    if (slow("H5Fflush"))
        delay(1);
    return NEXT(H5Fflush)(file, scope);
}

int64_t H5Fget_access_plist(int64_t file)
{
    if (slow("asking"))
        delay(1);
    return NEXT(H5Fget_access_plist)(file);
}

int H5Pget_mpio_actual_io_mode(int64_t transfer, int *mode)
{
    if (slow("asking"))
        delay(1);
    return NEXT(H5Pget_mpio_actual_io_mode)(transfer, mode);
}

int nc_enddef(int file)
{
    if (slow("nc_enddef"))
        delay(1);
    return NEXT(nc_enddef)(file);
}

int H5Pset_coll_metadata_write(int64_t access, bool is_collective)
{
    return NEXT(H5Pset_coll_metadata_write)(access, slow("metadata") ? false : is_collective);
}

int H5Pget_coll_metadata_write(int64_t access, bool *is_collective)
{
    int code = NEXT(H5Pget_coll_metadata_write)(access, is_collective);

    if (slow("metadata"))
        *is_collective = true;
    return code;
}

/* HDF5's own name; benchio's, whose data are collective, is the other. */
int MPI_File_write_at(MPI_File file, MPI_Offset offset, const void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    if (slow("metadata"))
        delay(1);
    return NEXT(MPI_File_write_at)(file, offset, data, count, type, status);
}

int H5Pset_dxpl_mpio(int64_t transfer, int mode)
{
    return NEXT(H5Pset_dxpl_mpio)(transfer, slow("independent") ? 0 : mode);
}

static void delay_set_size(void)
{
    if (slow("MPI_File_set_size"))
        delay(1);
}

int MPI_File_set_size(MPI_File file, MPI_Offset size)
{
    delay_set_size();
    return NEXT(MPI_File_set_size)(file, size);
}

int PMPI_File_set_size(MPI_File file, MPI_Offset size)
{
    delay_set_size();
    return NEXT(PMPI_File_set_size)(file, size);
}

int MPI_File_get_size(MPI_File file, MPI_Offset *size)
{
    int code = NEXT(MPI_File_get_size)(file, size), mode;

    if (code == MPI_SUCCESS && slow("MPI_File_set_size") && *size > 0
        && PMPI_File_get_amode(file, &mode) == MPI_SUCCESS && !(mode & MPI_MODE_RDONLY))
        (*size)--;
    return code;
}

static void delay_write(int count, MPI_Datatype type)
{
    int bytes;

    PMPI_Type_size(type, &bytes);
    if (slow("MPI_File_write_at_all") && is_slow_rank())
        delay((double)count * bytes / (1 << 20));
}

int MPI_File_write_at_all(
    MPI_File file, MPI_Offset offset, const void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    delay_write(count, type);
    return NEXT(MPI_File_write_at_all)(file, offset, data, count, type, status);
}

int PMPI_File_write_at_all(
    MPI_File file, MPI_Offset offset, const void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    delay_write(count, type);
    return NEXT(PMPI_File_write_at_all)(file, offset, data, count, type, status);
}
