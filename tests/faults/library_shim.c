/* Faults of the I/O libraries themselves, of one rank in a call that goes well on the others; for
 * tests, loaded with LD_PRELOAD, never part of benchio. LIBRARY_FAULT is the call:
 *
 *   H5Pset_alignment, H5Dcreate2, nc_def_var_fill, nc_enddef, nc_var_par_access, ncmpi_enddef
 *              is made, and on rank 1, or LIBRARY_RANK, then reports an error
 *   H5Pcreate, posix_memalign of a rank's block
 *              fails there, and has done nothing
 *   H5Dget_offset
 *              knows no place there, as of a dataset in chunks
 *   H5Dread    reports success on every rank, and has read nothing
 *   short      MPI-IO's transfer of benchio's own, of rank 1, reports success and half of what it has
 *              moved
 *   mirror     every rank's block lies where the mirror image of its place is, whether written or
 *              read: MPI_Type_create_subarray and H5Sselect_hyperslab count from the other end of
 *              what has room for two blocks or more, as the file has and memory with a halo has not
 *   exchange   the same along x alone, where a piece may be a row: memory has no room for two of them
 *   lost       what is written of the second time step is not, with success; of MPI-IO, what the
 *              second call of benchio's own writes
 *   twice      what is of one variable is written where the elements of another belong
 *   apart      of a file's first dataset HDF5 knows no place, as if it had chunks, and of what was read
 *              last it says that it was independent: neither is wrong, and both have to be seen
 *   properties none, but this process says at its end how many of HDF5's lists of properties are left
 *   nodes      every rank is on a node of its own, or on that of LIBRARY_NODES which its place in
 *              "0,0,1,1" says; hosts have the names of those numbers
 *
 * Both names of an MPI call are here: C libraries call MPI_X, the Fortran bindings PMPI_X. */
#include "interpose.h"

#include <mpi.h>

enum { NC_EPERM = -37, DIMENSIONS = 4, TIME = 0 };

/* Since the run began. */
static int has_read; /* by HDF5 */
static int places; /* that HDF5 was asked for */
static int collective_writes; /* of benchio's own */
static int64_t first_dataset; /* that HDF5 wrote */
static int properties; /* lists that HDF5 has made and not closed, of all runs */

/* Another run of the same process begins, with another fault; see many_runs.f90. */
void next_run(void)
{
    has_read = places = collective_writes = 0;
    first_dataset = 0;
}

static int asked(const char *call)
{
    return is_set("LIBRARY_FAULT", call);
}

/* What the call returned, or on rank 1 the error. */
static int64_t spoil(const char *call, int64_t code, int64_t error)
{
    const char *which = getenv("LIBRARY_RANK");
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return asked(call) && rank == (which == NULL ? 1 : atoi(which)) ? error : code;
}

/* The node that this rank is said to be on. */
static int made_up_node(void)
{
    const char *list = getenv("LIBRARY_NODES");
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (list == NULL)
        return rank;
    for (int i = 0; i < rank && list != NULL; i++)
        list = strchr(list, ',') == NULL ? NULL : strchr(list, ',') + 1;
    return list == NULL ? 0 : atoi(list);
}

int PMPI_Get_processor_name(char *name, int *length)
{
    if (!asked("nodes"))
        return NEXT(PMPI_Get_processor_name)(name, length);
    *length = sprintf(name, "node%d", made_up_node());
    return MPI_SUCCESS;
}

int64_t H5Pcreate(int64_t kind)
{
    if (spoil("H5Pcreate", 0, -1) < 0)
        return -1;
    properties++;
    return NEXT(H5Pcreate)(kind);
}

int64_t H5Fget_access_plist(int64_t file)
{
    properties++;
    return NEXT(H5Fget_access_plist)(file);
}

int H5Pclose(int64_t list)
{
    properties--;
    return NEXT(H5Pclose)(list);
}

int PMPI_Finalize(void)
{
    if (asked("properties"))
        fprintf(stderr, "properties left: %d\n", properties);
    return NEXT(PMPI_Finalize)();
}

int64_t H5Dcreate2(
    int64_t file, const char *name, int64_t type, int64_t space, int64_t link, int64_t creation, int64_t access)
{
    return spoil("H5Dcreate2", NEXT(H5Dcreate2)(file, name, type, space, link, creation, access), -1);
}

int H5Pset_alignment(int64_t access, uint64_t threshold, uint64_t alignment)
{
    return (int)spoil("H5Pset_alignment", NEXT(H5Pset_alignment)(access, threshold, alignment), -1);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    const int is_block = bytes == 8 * 64 * 64 * 48; /* before MPI begins there is no rank */

    return is_block && spoil("posix_memalign", 0, -1) < 0 ? ENOMEM
                                                          : NEXT(posix_memalign)(memory, alignment, bytes);
}

int H5Dread(int64_t dataset, int64_t type, int64_t memory, int64_t file, int64_t transfer, void *data)
{
    has_read = 1;
    return asked("H5Dread") ? 0 : NEXT(H5Dread)(dataset, type, memory, file, transfer, data);
}

uint64_t H5Dget_offset(int64_t dataset)
{
    return (asked("apart") && places++ == 0) || spoil("H5Dget_offset", 0, -1) < 0
               ? UINT64_MAX
               : NEXT(H5Dget_offset)(dataset);
}

int H5Pget_mpio_actual_io_mode(int64_t transfer, int *mode)
{
    int code = NEXT(H5Pget_mpio_actual_io_mode)(transfer, mode);

    if (asked("apart") && has_read)
        *mode = 0;
    return code;
}

/* HDF5's own. */
int H5Sget_simple_extent_ndims(int64_t space);
int H5Sget_simple_extent_dims(int64_t space, uint64_t *extents, uint64_t *limits);

int H5Dwrite(int64_t dataset, int64_t type, int64_t memory, int64_t file, int64_t transfer, const void *data)
{
    uint64_t whole[DIMENSIONS];

    if (asked("lost") && NEXT(H5Sget_simple_extent_ndims)(file) == DIMENSIONS
        && NEXT(H5Sget_simple_extent_dims)(file, whole, NULL) >= 0 && whole[TIME] == 2)
        return 0;
    if (first_dataset == 0)
        first_dataset = dataset;
    return NEXT(H5Dwrite)(asked("twice") ? first_dataset : dataset, type, memory, file, transfer, data);
}

/* PnetCDF's variables are numbered from 0. */
int ncmpi_put_vara_all(
    int file, int variable, const MPI_Offset start[], const MPI_Offset count[], const void *data, MPI_Offset types,
    MPI_Datatype type)
{
    if (asked("lost") && start[TIME] == 1)
        return 0;
    return NEXT(ncmpi_put_vara_all)(file, asked("twice") && variable == 0 ? 1 : variable, start, count, data, types, type);
}

int ncmpi_iput_vara(
    int file, int variable, const MPI_Offset start[], const MPI_Offset count[], const void *data, MPI_Offset types,
    MPI_Datatype type, int *request)
{
    if (asked("lost") && start[TIME] == 1) {
        *request = -1;
        return 0;
    }
    return NEXT(ncmpi_iput_vara)(file, asked("twice") && variable == 0 ? 1 : variable, start, count, data, types, type, request);
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

/* What the transfer returned; its status then tells of half. */
static int shortened(int code, MPI_Status *status)
{
    MPI_Count moved;
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (asked("short") && rank == 1) {
        PMPI_Get_elements_x(status, MPI_DOUBLE, &moved);
        PMPI_Status_set_elements_x(status, MPI_DOUBLE, moved / 2);
    }
    return code;
}

int PMPI_File_write_at(MPI_File file, MPI_Offset at, const void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    return shortened(NEXT(PMPI_File_write_at)(file, at, data, count, type, status), status);
}

int PMPI_File_write_at_all(
    MPI_File file, MPI_Offset at, const void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Count size;

    if (asked("lost") && ++collective_writes == 2) {
        PMPI_Type_size_x(type, &size);
        PMPI_Status_set_elements_x(status, MPI_DOUBLE, count * size / (MPI_Count)sizeof(double));
        return MPI_SUCCESS;
    }
    return shortened(NEXT(PMPI_File_write_at_all)(file, at, data, count, type, status), status);
}

int PMPI_File_read_at(MPI_File file, MPI_Offset at, void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    return shortened(NEXT(PMPI_File_read_at)(file, at, data, count, type, status), status);
}

int PMPI_File_read_at_all(MPI_File file, MPI_Offset at, void *data, int count, MPI_Datatype type, MPI_Status *status)
{
    return shortened(NEXT(PMPI_File_read_at_all)(file, at, data, count, type, status), status);
}

/* Where a part of the whole begins, or its mirror image. */
static uint64_t mirrored(uint64_t whole, uint64_t part, uint64_t before)
{
    return whole < 2 * part ? before : whole - part - before;
}

static int is_mirrored(int dimensions)
{
    return asked("mirror") ? dimensions == 3 : asked("exchange") && dimensions >= 1 && dimensions <= DIMENSIONS;
}

static int subarray(
    __typeof__(&MPI_Type_create_subarray) next, int dimensions, const int whole[], const int part[], const int before[],
    int order, MPI_Datatype old, MPI_Datatype *new)
{
    int starts[DIMENSIONS];

    if (!is_mirrored(dimensions))
        return next(dimensions, whole, part, before, order, old, new);
    for (int i = 0; i < dimensions; i++) // in the order of Fortran: x is the first
        starts[i] = asked("mirror") || i == 0
            ? (int)mirrored((uint64_t)whole[i], (uint64_t)part[i], (uint64_t)before[i])
            : before[i];
    return next(dimensions, whole, part, starts, order, old, new);
}

int MPI_Type_create_subarray(
    int dimensions, const int whole[], const int part[], const int before[], int order, MPI_Datatype old,
    MPI_Datatype *new)
{
    return subarray(NEXT(MPI_Type_create_subarray), dimensions, whole, part, before, order, old, new);
}

int PMPI_Type_create_subarray(
    int dimensions, const int whole[], const int part[], const int before[], int order, MPI_Datatype old,
    MPI_Datatype *new)
{
    return subarray(NEXT(PMPI_Type_create_subarray), dimensions, whole, part, before, order, old, new);
}

int H5Sselect_hyperslab(
    int64_t space, int how, const uint64_t start[], const uint64_t stride[], const uint64_t count[],
    const uint64_t block[])
{
    uint64_t whole[DIMENSIONS], starts[DIMENSIONS];
    int dimensions = NEXT(H5Sget_simple_extent_ndims)(space);

    if (!is_mirrored(dimensions)
        || NEXT(H5Sget_simple_extent_dims)(space, whole, NULL) < 0)
        return NEXT(H5Sselect_hyperslab)(space, how, start, stride, count, block);
    for (int i = 0; i < dimensions; i++) {
        uint64_t step = stride == NULL ? 1 : stride[i], size = block == NULL ? 1 : block[i];

        starts[i] = asked("mirror") || i == dimensions - 1
            ? mirrored(whole[i], (count[i] - 1) * step + size, start[i])
            : start[i];
    }
    return NEXT(H5Sselect_hyperslab)(space, how, starts, stride, count, block);
}
