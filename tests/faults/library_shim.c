/* Faults of the I/O libraries themselves, of one rank in a call that goes well on the others; for
 * tests, loaded with LD_PRELOAD, never part of benchio. LIBRARY_FAULT is the call:
 *
 *   H5Dcreate2, nc_def_var_fill, nc_enddef, nc_var_par_access, ncmpi_enddef
 *              is made, and on rank 1 then reports an error
 *   H5Dread    reports success on every rank, and has read nothing */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { NC_EPERM = -37 };

static int asked(const char *call)
{
    const char *fault = getenv("LIBRARY_FAULT");

    return fault != NULL && strcmp(fault, call) == 0;
}

/* What the call returned, or on rank 1 the error. */
static int64_t spoil(const char *call, int64_t code, int64_t error)
{
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return asked(call) && rank == 1 ? error : code;
}

int64_t H5Dcreate2(
    int64_t file, const char *name, int64_t type, int64_t space, int64_t link, int64_t creation, int64_t access)
{
    return spoil("H5Dcreate2", NEXT(H5Dcreate2)(file, name, type, space, link, creation, access), -1);
}

int H5Dread(int64_t dataset, int64_t type, int64_t memory, int64_t file, int64_t transfer, void *data)
{
    return asked("H5Dread") ? 0 : NEXT(H5Dread)(dataset, type, memory, file, transfer, data);
}

int nc_def_var_fill(int file, int variable, int off, const void *value)
{
    return (int)spoil("nc_def_var_fill", NEXT(nc_def_var_fill)(file, variable, off, value), NC_EPERM);
}

int nc_enddef(int file)
{
    return (int)spoil("nc_enddef", NEXT(nc_enddef)(file), NC_EPERM);
}

int nc_var_par_access(int file, int variable, int access)
{
    return (int)spoil("nc_var_par_access", NEXT(nc_var_par_access)(file, variable, access), NC_EPERM);
}

int ncmpi_enddef(int file)
{
    return (int)spoil("ncmpi_enddef", NEXT(ncmpi_enddef)(file), NC_EPERM);
}
