/* Gives today's HDF5 the habit that the white paper found in HDF5 1.8 on Lustre: it sets the size of
 * each file that it has written, and that is slow. For `make demo` alone, which loads it into the
 * jobs of its last night with LD_PRELOAD; what is written stays right.
 *
 * HDF5 now sets the size only of a file whose size is wrong, so it is told that the last byte lacks.
 * The delay stands for Lustre, which has to truncate the file on every OST.
 *
 * Only HDF5, and NetCDF by it, call MPI from C: benchio's own calls are Fortran's, which arrive at
 * PMPI_File_set_size. MPI-IO stays as it is. The functions of MPI are looked up when they are called,
 * as this is loaded into the job's shell, too, which has none. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <mpi.h>
#include <time.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int MPI_File_get_size(MPI_File file, MPI_Offset *size)
{
    int code = NEXT(MPI_File_get_size)(file, size), mode;

    if (code == MPI_SUCCESS && *size > 0
        && NEXT(MPI_File_get_amode)(file, &mode) == MPI_SUCCESS && !(mode & MPI_MODE_RDONLY))
        (*size)--;
    return code;
}

int MPI_File_set_size(MPI_File file, MPI_Offset size)
{
    struct timespec left = {0, 300 * 1000 * 1000};

    nanosleep(&left, NULL);
    return NEXT(MPI_File_set_size)(file, size);
}
