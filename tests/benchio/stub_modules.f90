!> Stand-ins for the modules of MPI, HDF5, PnetCDF and ADIOS2, whose module files another compiler does not
!> read: all that benchio uses of them, and nothing more. No program is made with them.
module mpi_f08
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none (type, external)

    type :: handle
        integer :: mpi_val = 0
    end type handle

    type, extends(handle) :: MPI_Comm
    end type MPI_Comm

    type, extends(handle) :: MPI_Datatype
    end type MPI_Datatype

    type, extends(handle) :: MPI_File
    end type MPI_File

    type, extends(handle) :: MPI_Info
    end type MPI_Info

    type, extends(handle) :: MPI_Op
    end type MPI_Op

    type, extends(handle) :: MPI_Request
    end type MPI_Request

    type :: MPI_Status
        integer :: MPI_SOURCE = 0, MPI_TAG = 0, MPI_ERROR = 0
    end type MPI_Status

    interface operator(==)
        procedure equal
    end interface

    interface operator(/=)
        procedure different
    end interface

    integer, parameter :: MPI_COUNT_KIND = int64, MPI_OFFSET_KIND = int64
    integer, parameter :: MPI_COMM_TYPE_SHARED = 1, MPI_MODE_CREATE = 1, MPI_MODE_EXCL = 2, &
        MPI_MODE_RDONLY = 4, MPI_MODE_WRONLY = 8, MPI_ORDER_FORTRAN = 1, MPI_SUCCESS = 0, &
        MPI_THREAD_FUNNELED = 1, MPI_THREAD_MULTIPLE = 3, MPI_UNDEFINED = -1
    integer, parameter :: MPI_MAX_ERROR_STRING = 256, MPI_MAX_INFO_KEY = 256, &
        MPI_MAX_INFO_VAL = 256, MPI_MAX_LIBRARY_VERSION_STRING = 256, MPI_MAX_PROCESSOR_NAME = 256
    logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false.
    type(MPI_Comm), parameter :: MPI_COMM_NULL = MPI_Comm(0), MPI_COMM_SELF = MPI_Comm(1), &
        MPI_COMM_WORLD = MPI_Comm(2)
    type(MPI_Datatype), parameter :: MPI_DATATYPE_NULL = MPI_Datatype(0), &
        MPI_2DOUBLE_PRECISION = MPI_Datatype(1), MPI_BYTE = MPI_Datatype(2), &
        MPI_CHARACTER = MPI_Datatype(3), MPI_DOUBLE_PRECISION = MPI_Datatype(4), &
        MPI_INT64_T = MPI_Datatype(5), MPI_INTEGER = MPI_Datatype(6), MPI_LOGICAL = MPI_Datatype(7)
    type(MPI_Info), parameter :: MPI_INFO_NULL = MPI_Info(0)
    type(MPI_Op), parameter :: MPI_BXOR = MPI_Op(1), MPI_LAND = MPI_Op(2), MPI_LOR = MPI_Op(3), &
        MPI_MAX = MPI_Op(4), MPI_MAXLOC = MPI_Op(5), MPI_MIN = MPI_Op(6), MPI_SUM = MPI_Op(7)
    type(MPI_Status) :: MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE(1)
    integer :: MPI_IN_PLACE

    external :: MPI_Allgather, MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_Comm_dup, &
        MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Comm_split_type, &
        MPI_Error_string, MPI_Exscan, MPI_F_sync_reg, MPI_File_close, MPI_File_get_info, &
        MPI_File_open, &
        MPI_File_read_at, MPI_File_read_at_all, MPI_File_set_view, MPI_File_sync, &
        MPI_File_write_at, MPI_File_write_at_all, MPI_Finalize, MPI_Gather, MPI_Gatherv, &
        MPI_Get_count, MPI_Get_elements_x, MPI_Get_library_version, MPI_Get_processor_name, &
        MPI_Info_create, MPI_Info_free, MPI_Info_get, MPI_Info_get_nkeys, MPI_Info_get_nthkey, &
        MPI_Info_set, MPI_Init, MPI_Init_thread, MPI_Initialized, MPI_Irecv, MPI_Isend, MPI_Probe, &
        MPI_Query_thread, MPI_Recv, MPI_Reduce, MPI_Send, MPI_Sendrecv, MPI_Type_commit, &
        MPI_Type_create_subarray, MPI_Type_free, MPI_Wait, MPI_Waitall

contains

    elemental logical function equal(one, other)
        class(handle), intent(in) :: one, other

        equal = one%mpi_val == other%mpi_val
    end function equal

    elemental logical function different(one, other)
        class(handle), intent(in) :: one, other

        different = one%mpi_val /= other%mpi_val
    end function different

end module mpi_f08

module hdf5
    use, intrinsic :: iso_c_binding, only: c_ptr
    use, intrinsic :: iso_fortran_env, only: int32, int64
    implicit none (type, external)

    integer, parameter :: hid_t = int64, hsize_t = int64
    integer, parameter :: h5d_fill_time_never_f = 1, h5s_select_set_f = 0
    integer(hsize_t), parameter :: h5s_unlimited_f = -1
    integer, protected :: h5f_acc_excl_f, h5f_acc_rdonly_f, h5f_libver_earliest_f, &
        h5f_libver_latest_f, h5f_scope_global_f, h5fd_mpio_collective_f, h5fd_mpio_independent_f
    integer(hid_t), protected :: h5p_dataset_create_f, h5p_dataset_xfer_f, h5p_file_access_f, &
        h5t_native_double

    type :: shared_config
        integer(int32) :: stripe_count
    end type shared_config

    type :: h5fd_subfiling_config_t
        integer(hid_t) :: ioc_fapl_id
        type(shared_config) :: shared_cfg
    end type h5fd_subfiling_config_t

    abstract interface
        subroutine opened(path, flags, file, code, access_prp)
            import :: hid_t
            character(*), intent(in) :: path
            integer, intent(in) :: flags
            integer(hid_t), intent(out) :: file
            integer, intent(out) :: code
            integer(hid_t), intent(in), optional :: access_prp
        end subroutine opened

        subroutine moved(dataset, type, memory, code, mem_space_id, file_space_id, xfer_prp)
            import :: c_ptr, hid_t
            integer(hid_t), intent(in) :: dataset, type
            type(c_ptr), intent(in), value :: memory
            integer, intent(out) :: code
            integer(hid_t), intent(in), optional :: mem_space_id, file_space_id, xfer_prp
        end subroutine moved
    end interface

    interface
        subroutine h5dcreate_f(file, name, type, space, dataset, code, dcpl_id)
            import :: hid_t
            integer(hid_t), intent(in) :: file, type, space
            character(*), intent(in) :: name
            integer(hid_t), intent(out) :: dataset
            integer, intent(out) :: code
            integer(hid_t), intent(in), optional :: dcpl_id
        end subroutine h5dcreate_f
    end interface

    procedure(opened) :: h5fcreate_f, h5fopen_f
    procedure(moved) :: h5dread_f, h5dwrite_f
    external :: h5dclose_f, h5dopen_f, h5dset_extent_f, h5eset_auto_f, h5fclose_f, h5fflush_f, &
        h5fget_access_plist_f, h5get_libversion_f, h5open_f, h5pclose_f, h5pcreate_f, &
        h5pget_all_coll_metadata_ops_f, h5pget_coll_metadata_write_f, h5pget_fapl_subfiling_f, &
        h5pget_mpio_actual_io_mode_f, h5pset_alignment_f, h5pset_all_coll_metadata_ops_f, &
        h5pset_chunk_f, h5pset_coll_metadata_write_f, h5pset_deflate_f, h5pset_dxpl_mpio_f, &
        h5pset_fapl_mpio_f, h5pset_fapl_subfiling_f, h5pset_fill_time_f, &
        h5pset_libver_bounds_f, h5pset_mpi_params_f, h5pset_shuffle_f, h5sclose_f, &
        h5screate_simple_f, h5sselect_hyperslab_f, h5sselect_none_f

end module hdf5

module pnetcdf
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none (type, external)

    integer, parameter :: nf90_64bit_data = 32, nf90_double = 6, nf90_noclobber = 4, &
        nf90_noerr = 0, nf90_nowrite = 0, nf90_req_all = -1
    integer(int64), parameter :: nf90mpi_unlimited = 0

    interface
        integer function nf90mpi_enddef(file, h_minfree, v_align, v_minfree, r_align)
            import :: int64
            integer, intent(in) :: file
            integer(int64), intent(in), optional :: h_minfree, v_align, v_minfree, r_align
        end function nf90mpi_enddef
    end interface

    character(80), external :: nf90mpi_inq_libvers, nf90mpi_strerror
    integer, external :: nf90mpi_begin_indep_data, nf90mpi_close, nf90mpi_create, &
        nf90mpi_def_dim, nf90mpi_def_var, nf90mpi_inq_file_info, nf90mpi_inq_recsize, &
        nf90mpi_inq_varid, nf90mpi_inq_varoffset, nf90mpi_open, nf90mpi_sync, nf90mpi_wait_all

end module pnetcdf

module adios2
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none (type, external)

    integer, parameter :: adios2_mode_deferred = 4, adios2_mode_read = 2, adios2_mode_sync = 5, &
        adios2_mode_write = 1, adios2_type_dp = 6

    type :: adios2_adios
        integer(int64) :: f2c = 0
        logical :: valid = .false.
    end type adios2_adios

    type :: adios2_io
        integer(int64) :: f2c = 0
    end type adios2_io

    type :: adios2_engine
        integer(int64) :: f2c = 0
        character(15) :: type = ''
    end type adios2_engine

    type :: adios2_variable
        integer(int64) :: f2c = 0
        logical :: valid = .false.
    end type adios2_variable

    interface
        subroutine adios2_get_parameter(value, io, key, code)
            import :: adios2_io
            character(:), allocatable, intent(out) :: value
            type(adios2_io), intent(in) :: io
            character(*), intent(in) :: key
            integer, intent(out) :: code
        end subroutine adios2_get_parameter
    end interface

    external :: adios2_begin_step, adios2_close, adios2_declare_io, adios2_define_variable, &
        adios2_end_step, adios2_flush, adios2_get, adios2_init, adios2_inquire_variable, &
        adios2_open, adios2_perform_gets, adios2_perform_puts, adios2_put, adios2_remove_io, &
        adios2_set_engine, adios2_set_parameter, adios2_set_selection

end module adios2
