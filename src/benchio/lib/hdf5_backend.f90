!> Parallel HDF5: the dataset "data", contiguous, C order (nz, ny, nx); collective transfers.
!>
!> The block is selected in memory by a hyperslab, so halos cost no copy. Fill values are never
!> written, or the file would be written twice.
module benchio_hdf5_backend
    use, intrinsic :: iso_c_binding, only: c_loc, c_ptr
    use, intrinsic :: iso_fortran_env, only: real64
    use hdf5, only: h5dclose_f, h5dcreate_f, h5dopen_f, h5dread_f, h5dwrite_f, &
        h5eset_auto_f, h5f_acc_excl_f, h5f_acc_rdonly_f, h5f_scope_global_f, h5fclose_f, &
        h5fcreate_f, h5fflush_f, h5fopen_f, h5get_libversion_f, h5open_f, h5p_dataset_create_f, &
        h5p_dataset_xfer_f, h5p_file_access_f, h5pclose_f, h5pcreate_f, &
        h5pset_all_coll_metadata_ops_f, h5pset_coll_metadata_write_f, h5pset_dxpl_mpio_f, &
        h5pset_fapl_mpio_f, h5pset_fill_time_f, h5d_fill_time_never_f, h5fd_mpio_collective_f, &
        h5s_select_set_f, h5sclose_f, h5screate_simple_f, h5sselect_hyperslab_f, &
        h5t_native_double, hid_t, hsize_t
    use mpi_f08, only: MPI_Comm, MPI_INFO_NULL
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    use benchio_hdf5_error, only: check_hdf5
    implicit none (type, external)
    private

    public :: hdf5_version, start_hdf5

    character(*), parameter :: dataset_name = 'data'
    integer(hid_t), parameter :: none = -1

    type, extends(backend), public :: hdf5_backend
        private
        type(decomposition) :: block
        character(:), allocatable :: path
        integer(hid_t) :: file = none, dataset = none, transfer = none
        integer(hid_t) :: in_file = none, in_memory = none
    contains
        procedure :: create
        procedure :: define
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
    end type hdf5_backend

contains

    !> Initialises the library, once and outside every clock.
    subroutine start_hdf5()
        integer :: code

        call h5open_f(code)
        call h5eset_auto_f(0, code)     ! we report errors, in one line
    end subroutine start_hdf5

    function hdf5_version() result(text)
        character(:), allocatable :: text

        integer :: major, minor, release, code
        character(32) :: buffer

        call h5open_f(code)
        call h5get_libversion_f(major, minor, release, code)
        write (buffer, '(i0,2(".",i0))') major, minor, release
        text = trim(buffer)
    end function hdf5_version

    subroutine create(self, path, block, comm, error)
        class(hdf5_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        integer(hid_t) :: access
        integer :: code, ignored

        self%block = block
        self%path = path
        call new_access(access, comm, path, error)
        if (error%failed()) return
        call h5fcreate_f(path, h5f_acc_excl_f, self%file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fcreate', path)
        call h5pclose_f(access, ignored)
    end subroutine create

    subroutine define(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hid_t) :: creation
        integer :: code, ignored

        call select_blocks(self, error)
        if (error%failed()) return
        call h5pcreate_f(h5p_dataset_create_f, creation, code)
        call check_hdf5(error, code, 'H5Pcreate', self%path)
        call h5pset_fill_time_f(creation, h5d_fill_time_never_f, code)
        call check_hdf5(error, code, 'H5Pset_fill_time', self%path)
        call h5dcreate_f(self%file, dataset_name, h5t_native_double, self%in_file, self%dataset, &
            code, dcpl_id=creation)
        call check_hdf5(error, code, 'H5Dcreate', self%path)
        call h5pclose_f(creation, ignored)
    end subroutine define

    subroutine write(self, field, error)
        class(hdf5_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer :: code

        buffer = c_loc(field)
        call h5dwrite_f(self%dataset, h5t_native_double, buffer, code, &
            mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
        call check_hdf5(error, code, 'H5Dwrite', self%path)
    end subroutine write

    !> H5Fflush reaches MPI_File_sync; H5Fclose alone does not.
    subroutine sync(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call h5fflush_f(self%file, h5f_scope_global_f, code)
        call check_hdf5(error, code, 'H5Fflush', self%path)
    end subroutine sync

    subroutine close(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code, ignored

        if (self%transfer /= none) call h5pclose_f(self%transfer, ignored)
        if (self%in_memory /= none) call h5sclose_f(self%in_memory, ignored)
        if (self%in_file /= none) call h5sclose_f(self%in_file, ignored)
        if (self%dataset /= none) then
            call h5dclose_f(self%dataset, code)
            call check_hdf5(error, code, 'H5Dclose', self%path)
        end if
        call h5fclose_f(self%file, code)
        call check_hdf5(error, code, 'H5Fclose', self%path)
        self%transfer = none
        self%in_memory = none
        self%in_file = none
        self%dataset = none
        self%file = none
    end subroutine close

    subroutine open(self, path, block, comm, error)
        class(hdf5_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        integer(hid_t) :: access
        integer :: code, ignored

        self%block = block
        self%path = path
        call new_access(access, comm, path, error)
        if (error%failed()) return
        call h5fopen_f(path, h5f_acc_rdonly_f, self%file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fopen', path)
        call h5pclose_f(access, ignored)
        if (error%failed()) return
        call select_blocks(self, error)
        call h5dopen_f(self%file, dataset_name, self%dataset, code)
        call check_hdf5(error, code, 'H5Dopen', path)
    end subroutine open

    subroutine read(self, field, error)
        class(hdf5_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer :: code

        buffer = c_loc(field)
        call h5dread_f(self%dataset, h5t_native_double, buffer, code, &
            mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
        call check_hdf5(error, code, 'H5Dread', self%path)
    end subroutine read

    !> File access through MPI-IO with collective metadata.
    subroutine new_access(access, comm, path, error)
        integer(hid_t), intent(out) :: access
        type(MPI_Comm), intent(in) :: comm
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

        integer :: code

        call h5pcreate_f(h5p_file_access_f, access, code)
        call check_hdf5(error, code, 'H5Pcreate', path)
        call h5pset_fapl_mpio_f(access, comm%mpi_val, MPI_INFO_NULL%mpi_val, code)
        call check_hdf5(error, code, 'H5Pset_fapl_mpio', path)
        call h5pset_coll_metadata_write_f(access, .true., code)
        call check_hdf5(error, code, 'H5Pset_coll_metadata_write', path)
        call h5pset_all_coll_metadata_ops_f(access, .true., code)
        call check_hdf5(error, code, 'H5Pset_all_coll_metadata_ops', path)
    end subroutine new_access

    !> The block in the file and in memory, and collective transfer between them.
    subroutine select_blocks(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hsize_t) :: start(3), count(3), extents(3)
        integer :: code

        count = int(self%block%extent, hsize_t)
        start = int(self%block%lower, hsize_t)
        extents = int(self%block%global, hsize_t)
        call h5screate_simple_f(3, extents, self%in_file, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        call h5sselect_hyperslab_f(self%in_file, h5s_select_set_f, start, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)

        start = int(self%block%halo, hsize_t)
        extents = count + 2*start
        call h5screate_simple_f(3, extents, self%in_memory, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        call h5sselect_hyperslab_f(self%in_memory, h5s_select_set_f, start, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)

        call h5pcreate_f(h5p_dataset_xfer_f, self%transfer, code)
        call check_hdf5(error, code, 'H5Pcreate', self%path)
        call h5pset_dxpl_mpio_f(self%transfer, h5fd_mpio_collective_f, code)
        call check_hdf5(error, code, 'H5Pset_dxpl_mpio', self%path)
    end subroutine select_blocks

end module benchio_hdf5_backend
