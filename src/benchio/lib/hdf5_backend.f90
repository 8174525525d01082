!> Parallel HDF5: the dataset "data", contiguous, C order (nz, ny, nx); collective transfers.
!>
!> The block is selected in memory by a hyperslab, so halos cost no copy. A block of more than 1 GiB
!> is moved in pieces: ROMIO crashes on more than 2 GiB in one call. Fill values are never written,
!> or the file would be written twice.
module benchio_hdf5_backend
    use, intrinsic :: iso_c_binding, only: c_loc, c_ptr
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use hdf5, only: h5d_fill_time_never_f, h5dclose_f, h5dcreate_f, h5dopen_f, &
        h5dread_f, h5dwrite_f, h5eset_auto_f, h5f_acc_excl_f, h5f_acc_rdonly_f, &
        h5f_scope_global_f, h5fclose_f, h5fcreate_f, h5fflush_f, h5fopen_f, h5get_libversion_f, &
        h5open_f, h5p_dataset_create_f, h5pclose_f, h5pcreate_f, h5pset_chunk_f, &
        h5pset_fill_time_f, h5s_select_set_f, h5sclose_f, h5screate_simple_f, &
        h5sselect_hyperslab_f, h5sselect_none_f, h5t_native_double, hid_t, hsize_t
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_IN_PLACE, MPI_INTEGER8, MPI_MAX
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    use benchio_hdf5_error, only: check_hdf5
    use benchio_hdf5_properties, only: kind_of_transfer, new_access, new_transfer
    use benchio_settings, only: io_settings
    use benchio_slabs, only: new_slabs, slabs
    implicit none (type, external)
    private

    public :: hdf5_version, start_hdf5

    character(*), parameter :: dataset_name = 'data'
    integer(int64), parameter :: piece_bytes = 2_int64**30
    integer(hid_t), parameter :: none = -1

    type, extends(backend), public :: hdf5_backend
        private
        integer(int64) :: global(3) = 0
        type(decomposition) :: block
        type(slabs) :: cut                          !! of this rank's block
        integer(int64) :: pieces = 1                !! of the rank that has most
        type(MPI_Comm) :: comm
        type(io_settings) :: settings
        character(:), allocatable :: path
        integer(hid_t) :: file = none, dataset = none, transfer = none
        integer(hid_t) :: in_file = none, in_memory = none
        character(:), allocatable :: observed       !! kind of the last transfer
    contains
        procedure :: create
        procedure :: define
        procedure :: select
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
        procedure :: observed_collective
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

    subroutine create(self, path, global, comm, settings, error)
        class(hdf5_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        integer(hid_t) :: access
        integer :: code, ignored

        call prepare(self, path, global, comm, settings)
        call new_access(access, comm, settings, path, error)
        if (error%failed()) return
        call h5fcreate_f(path, h5f_acc_excl_f, self%file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fcreate', path)
        call h5pclose_f(access, ignored)
    end subroutine create

    subroutine define(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hid_t) :: creation, space
        integer(hsize_t) :: extents(3)
        integer :: code, ignored

        call h5pcreate_f(h5p_dataset_create_f, creation, code)
        call check_hdf5(error, code, 'H5Pcreate', self%path)
        call h5pset_fill_time_f(creation, h5d_fill_time_never_f, code)
        call check_hdf5(error, code, 'H5Pset_fill_time', self%path)
        if (all(self%settings%chunk > 0)) then
            extents = min(self%settings%chunk, self%global)
            call h5pset_chunk_f(creation, 3, extents, code)
            call check_hdf5(error, code, 'H5Pset_chunk', self%path)
        end if
        extents = int(self%global, hsize_t)
        call h5screate_simple_f(3, extents, space, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        call h5dcreate_f(self%file, dataset_name, h5t_native_double, space, self%dataset, code, &
            dcpl_id=creation)
        call check_hdf5(error, code, 'H5Dcreate', self%path)
        call h5sclose_f(space, ignored)
        call h5pclose_f(creation, ignored)
    end subroutine define

    !> The block, and the mode of transfer.
    subroutine select(self, block, error)
        class(hdf5_backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        integer(hsize_t) :: extents(3)
        integer :: code

        call free_selection(self)
        self%block = block
        self%cut = new_slabs(block%extent, piece_bytes)
        self%pieces = self%cut%number_of()
        call MPI_Allreduce(MPI_IN_PLACE, self%pieces, 1, MPI_INTEGER8, MPI_MAX, self%comm)

        extents = int(block%global, hsize_t)
        call h5screate_simple_f(3, extents, self%in_file, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        extents = int(block%extent + 2*block%halo, hsize_t)
        call h5screate_simple_f(3, extents, self%in_memory, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        call select_piece(self, 1_int64, error)

        call new_transfer(self%transfer, self%settings, self%path, error)
    end subroutine select

    !> A piece of the block in the file and in memory; nothing past this rank's last piece, for the
    !> collective call that others still make.
    subroutine select_piece(self, piece, error)
        class(hdf5_backend), intent(inout) :: self
        integer(int64), intent(in) :: piece
        type(failure), intent(inout) :: error

        integer(int64) :: before(3), extent(3)
        integer(hsize_t) :: start(3), count(3)
        integer :: code

        if (piece > self%cut%number_of()) then
            call h5sselect_none_f(self%in_file, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            call h5sselect_none_f(self%in_memory, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            return
        end if
        call self%cut%bounds(piece, before, extent)
        count = int(extent, hsize_t)
        start = int(self%block%lower + before, hsize_t)
        call h5sselect_hyperslab_f(self%in_file, h5s_select_set_f, start, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
        start = int(self%block%halo + before, hsize_t)
        call h5sselect_hyperslab_f(self%in_memory, h5s_select_set_f, start, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
    end subroutine select_piece

    subroutine write(self, field, error)
        class(hdf5_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer(int64) :: piece
        integer :: code

        buffer = c_loc(field)
        do piece = 1, self%pieces   ! every rank makes all collective calls, even after a failure
            if (self%pieces > 1) call select_piece(self, piece, error)
            call h5dwrite_f(self%dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dwrite', self%path)
        end do
        self%observed = kind_of_transfer(self%transfer)
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

        integer :: code

        call free_selection(self)
        if (self%dataset /= none) then
            call h5dclose_f(self%dataset, code)
            call check_hdf5(error, code, 'H5Dclose', self%path)
        end if
        call h5fclose_f(self%file, code)
        call check_hdf5(error, code, 'H5Fclose', self%path)
        self%dataset = none
        self%file = none
    end subroutine close

    subroutine open(self, path, global, comm, settings, error)
        class(hdf5_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        integer(hid_t) :: access
        integer :: code, ignored

        call prepare(self, path, global, comm, settings)
        call new_access(access, comm, settings, path, error)
        if (error%failed()) return
        call h5fopen_f(path, h5f_acc_rdonly_f, self%file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fopen', path)
        call h5pclose_f(access, ignored)
        if (error%failed()) return
        call h5dopen_f(self%file, dataset_name, self%dataset, code)
        call check_hdf5(error, code, 'H5Dopen', path)
    end subroutine open

    subroutine read(self, field, error)
        class(hdf5_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer(int64) :: piece
        integer :: code

        buffer = c_loc(field)
        do piece = 1, self%pieces   ! every rank makes all collective calls, even after a failure
            if (self%pieces > 1) call select_piece(self, piece, error)
            call h5dread_f(self%dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dread', self%path)
        end do
        self%observed = kind_of_transfer(self%transfer)
    end subroutine read

    function observed_collective(self) result(text)
        class(hdf5_backend), intent(in) :: self
        character(:), allocatable :: text

        text = self%observed
    end function observed_collective

    subroutine prepare(self, path, global, comm, settings)
        class(hdf5_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings

        self%path = path
        self%global = global
        self%comm = comm
        self%settings = settings
        self%observed = ''
    end subroutine prepare

    subroutine free_selection(self)
        class(hdf5_backend), intent(inout) :: self

        integer :: ignored

        if (self%transfer /= none) call h5pclose_f(self%transfer, ignored)
        if (self%in_memory /= none) call h5sclose_f(self%in_memory, ignored)
        if (self%in_file /= none) call h5sclose_f(self%in_file, ignored)
        self%transfer = none
        self%in_memory = none
        self%in_file = none
    end subroutine free_selection

end module benchio_hdf5_backend
