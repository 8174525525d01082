!> Parallel HDF5: the dataset "data", contiguous, C order (nz, ny, nx); collective transfers.
!>
!> A piece is selected in memory by a hyperslab, so halos cost no copy of ours. Fill values are
!> never written, or the file would be written twice.
module benchio_hdf5_backend
    use, intrinsic :: iso_c_binding, only: c_int64_t, c_loc, c_ptr
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use hdf5, only: h5d_fill_time_never_f, h5dclose_f, h5dcreate_f, h5dopen_f, &
        h5dread_f, h5dwrite_f, h5eset_auto_f, h5f_acc_excl_f, h5f_acc_rdonly_f, &
        h5f_scope_global_f, h5fclose_f, h5fcreate_f, h5fflush_f, &
        h5fget_access_plist_f, h5fopen_f, &
        h5open_f, h5p_dataset_create_f, h5pclose_f, h5pcreate_f, h5pset_chunk_f, &
        h5pset_fill_time_f, h5s_select_set_f, h5sclose_f, h5screate_simple_f, &
        h5sselect_hyperslab_f, h5sselect_none_f, h5t_native_double, hid_t, hsize_t
    use mpi_f08, only: MPI_COMM_SELF
    use benchio_backend, only: backend, placement
    use benchio_failure, only: failure
    use benchio_hdf5_error, only: c_hid_t, check_hdf5
    use benchio_hdf5_properties, only: echoed_collective_metadata, &
        kind_of_transfer, new_access, new_transfer
    use benchio_settings, only: io_settings
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    public :: dataset_place, start_hdf5

    character(*), parameter :: dataset_name = 'data'
    integer(hid_t), parameter :: none = -1

    type, extends(backend), public :: hdf5_backend
        private
        integer(hid_t) :: file = none, dataset = none, transfer = none
        integer(hid_t) :: in_file = none, in_memory = none
        character(:), allocatable :: echo           !! of collective metadata
        character(:), allocatable :: observed       !! kind of the last transfer
    contains
        procedure :: open_file
        procedure :: define
        procedure :: select_block
        procedure :: move_piece
        procedure :: flush
        procedure :: close
        procedure :: locate
    end type hdf5_backend

    interface
        !> Where a contiguous dataset begins in its file, in bytes; the Fortran interface lacks it.
        integer(c_int64_t) function h5dget_offset(dataset) bind(C, name='H5Dget_offset')
            import :: c_hid_t, c_int64_t
            integer(c_hid_t), value :: dataset
        end function h5dget_offset
    end interface

contains

    !> Initialises the library, once and outside every clock.
    subroutine start_hdf5()
        integer :: code

        call h5open_f(code)
        call h5eset_auto_f(0, code)     ! we report errors, in one line
    end subroutine start_hdf5

    subroutine open_file(self, writes, error)
        class(hdf5_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        integer(hid_t) :: access
        integer :: code, ignored

        call new_access(access, self%comm, self%settings, self%path, error)
        if (error%failed()) return
        if (writes) then
            call h5fcreate_f(self%path, h5f_acc_excl_f, self%file, code, access_prp=access)
            call check_hdf5(error, code, 'H5Fcreate', self%path)
        else
            call h5fopen_f(self%path, h5f_acc_rdonly_f, self%file, code, access_prp=access)
            call check_hdf5(error, code, 'H5Fopen', self%path)
        end if
        call h5pclose_f(access, ignored)
        if (error%failed()) return
        call h5fget_access_plist_f(self%file, access, code)
        call check_hdf5(error, code, 'H5Fget_access_plist', self%path)
        self%echoed_collective_metadata = echoed_collective_metadata(access)
        call h5pclose_f(access, ignored)
        if (writes .or. error%failed()) return
        call h5dopen_f(self%file, dataset_name, self%dataset, code)
        call check_hdf5(error, code, 'H5Dopen', self%path)
    end subroutine open_file

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

    !> The extents in file and in memory that pieces are selected in, and the mode of transfer.
    subroutine select_block(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hsize_t) :: extents(3)
        integer :: code

        call free_selection(self)
        extents = int(self%block%global, hsize_t)
        call h5screate_simple_f(3, extents, self%in_file, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        extents = int(self%block%extent + 2*self%block%halo, hsize_t)
        call h5screate_simple_f(3, extents, self%in_memory, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        call new_transfer(self%transfer, self%settings, self%path, error)
    end subroutine select_block

    subroutine move_piece(self, writes, part, memory, room, error)
        class(hdf5_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer :: code

        associate (as_selected => room)     ! never packed
        end associate
        call select_piece(self, part, error)
        buffer = c_loc(memory)
        if (writes) then
            call h5dwrite_f(self%dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dwrite', self%path)
        else
            call h5dread_f(self%dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dread', self%path)
        end if
        self%observed_collective = kind_of_transfer(self%transfer)
    end subroutine move_piece

    !> Selects a piece in the file and in memory; nothing for an empty one.
    subroutine select_piece(self, part, error)
        class(hdf5_backend), intent(inout) :: self
        type(piece), intent(in) :: part
        type(failure), intent(inout) :: error

        integer(hsize_t), parameter :: origin(3) = 0
        integer(hsize_t) :: start(3), count(3)
        integer :: code

        if (part%elements() == 0) then
            call h5sselect_none_f(self%in_file, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            call h5sselect_none_f(self%in_memory, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            return
        end if
        count = int(part%extent, hsize_t)
        start = int(self%block%lower + part%before, hsize_t)
        call h5sselect_hyperslab_f(self%in_file, h5s_select_set_f, start, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
        call h5sselect_hyperslab_f(self%in_memory, h5s_select_set_f, origin, count, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
    end subroutine select_piece

    !> H5Fflush reaches MPI_File_sync; H5Fclose alone does not.
    subroutine flush(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call h5fflush_f(self%file, h5f_scope_global_f, code)
        call check_hdf5(error, code, 'H5Fflush', self%path)
    end subroutine flush

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

    subroutine locate(self, place, error)
        class(hdf5_backend), intent(inout) :: self
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        call dataset_place(self%path, dataset_name, self%settings, place, error)
    end subroutine locate

    !> Where a dataset of native doubles is in a closed file; not collective.
    !>
    !> Opened through MPI-IO: HDF5's own driver would lock the file, which a filesystem may refuse.
    subroutine dataset_place(path, name, settings, place, error)
        character(*), intent(in) :: path, name
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        integer(c_int64_t), parameter :: not_one_run = -1   ! HADDR_UNDEF: chunked, for instance
        integer(hid_t) :: access, dataset, file
        integer(c_int64_t) :: offset
        integer :: code, ignored

        call new_access(access, MPI_COMM_SELF, settings, path, error)
        if (error%failed()) return
        call h5fopen_f(path, h5f_acc_rdonly_f, file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fopen', path)
        call h5pclose_f(access, ignored)
        if (error%failed()) return
        call h5dopen_f(file, name, dataset, code)
        call check_hdf5(error, code, 'H5Dopen', path)
        if (code >= 0) then
            offset = h5dget_offset(dataset)
            place%is_contiguous = offset /= not_one_run
            if (place%is_contiguous) place%offset = offset
            call h5dclose_f(dataset, code)
            call check_hdf5(error, code, 'H5Dclose', path)
        end if
        call h5fclose_f(file, code)
        call check_hdf5(error, code, 'H5Fclose', path)
    end subroutine dataset_place

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
