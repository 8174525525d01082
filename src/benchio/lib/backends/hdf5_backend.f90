!> Parallel HDF5: the dataset "data", contiguous, C order (nz, ny, nx); collective transfers. Of
!> several variables each is a dataset, and time steps are its first dimension, which grows.
!>
!> A piece is selected in memory by a hyperslab, so halos cost no copy of ours. Fill values are
!> never written, or the file would be written twice.
module benchio_hdf5_backend
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_loc, c_ptr
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use hdf5, only: h5d_fill_time_never_f, h5dclose_f, h5dcreate_f, h5dopen_f, h5dread_f, &
        h5dset_extent_f, h5dwrite_f, h5eset_auto_f, h5f_acc_excl_f, h5f_acc_rdonly_f, &
        h5f_scope_global_f, h5fclose_f, h5fcreate_f, h5fd_mpio_collective_f, &
        h5fd_mpio_independent_f, h5fflush_f, h5fget_access_plist_f, h5fopen_f, h5open_f, &
        h5p_dataset_create_f, h5p_dataset_xfer_f, h5pclose_f, h5pcreate_f, &
        h5pget_mpio_actual_io_mode_f, h5pset_chunk_f, h5pset_deflate_f, h5pset_dxpl_mpio_f, &
        h5pset_fill_time_f, h5pset_shuffle_f, h5s_select_set_f, h5s_unlimited_f, h5sclose_f, &
        h5screate_simple_f, h5sselect_hyperslab_f, h5sselect_none_f, h5t_native_double, hid_t, &
        hsize_t
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_COMM_SELF
    use benchio_access, only: access_pattern
    use benchio_backend, only: backend, cannot, placement
    use benchio_failure, only: agree, exit_not_built_in, failure
    use benchio_file_parts, only: file_parts
    use benchio_hdf5_properties, only: c_hid_t, can_compress, can_subfile, check_hdf5, &
        echoed_collective_metadata, hdf5_version, new_access
    use benchio_hdf5_subfiles, only: find_subfiles, object_to_subfiling, subfile_mark
    use benchio_settings, only: io_settings
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    public :: dataset_place, start_hdf5

    integer(hid_t), parameter :: none = -1

    type, extends(backend), public :: hdf5_backend
        private
        integer(hid_t) :: file = none, transfer = none
        integer(hid_t), allocatable :: datasets(:)  !! one a variable
        integer(hid_t) :: in_file = none, in_memory = none
        integer :: step = -1                        !! that in_file is of, from 0
    contains
        procedure, nopass :: version => hdf5_version
        procedure, nopass :: extra
        procedure, nopass :: objection
        procedure, nopass :: heeded
        procedure, nopass :: companions
        procedure, nopass :: locate => dataset_place
        procedure, nopass :: find_parts
        procedure, nopass :: echo
        procedure :: open_in_library
        procedure :: define
        procedure :: select_block
        procedure :: move_piece
        procedure :: flush
        procedure :: close
        procedure :: kind_of_transfer
        final :: free_transfer
    end type hdf5_backend

    interface
        !> Returns where a contiguous dataset begins in its file, in bytes. The Fortran interface
        !> lacks it.
        integer(c_int64_t) function h5dget_offset(dataset) bind(C, name='H5Dget_offset')
            import :: c_hid_t, c_int64_t
            integer(c_hid_t), value :: dataset
        end function h5dget_offset

        integer(c_int) function h5pget_no_collective_cause(transfer, local, global) &
            bind(C, name='H5Pget_mpio_no_collective_cause')
            import :: c_hid_t, c_int, c_int32_t
            integer(c_hid_t), value :: transfer
            integer(c_int32_t), intent(out) :: local, global    ! sets of bits
        end function h5pget_no_collective_cause
    end interface

contains

    !> Initialises the library, once and outside every clock.
    subroutine start_hdf5()
        integer :: code

        call h5open_f(code)
        call h5eset_auto_f(0, code)     ! we report errors, in one line
    end subroutine start_hdf5

    function extra() result(text)
        character(:), allocatable :: text

        text = 'subfiling '//trim(merge('built into hdf5', 'not built in   ', can_subfile))
    end function extra

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        associate (access => settings%access)
            call cannot(error, access%quantize > 0, 'HDF5 does not round to decimal digits: ' &
                //'leave out --quantize, or the backend hdf5')
            call cannot(error, access%deflate > 0 .and. .not. settings%collective, 'HDF5 ' &
                //'compresses in collective transfers alone: --deflate excludes --collective no')
            call cannot(error, access%subfiles > 0 .and. (access%steps > 1 .or. access%deflate > 0 &
                .or. any(settings%chunk > 0)), 'HDF5 reads no chunks from subfiles collectively: ' &
                //'--subfiles excludes --steps, --deflate and --chunk')
            if (.not. can_compress() .and. access%deflate > 0) call error%set(exit_not_built_in, &
                '', '', 'HDF5 '//hdf5_version()//' does not compress in parallel: 1.10.2 and ' &
                //'later do')
            if (access%subfiles > 0) call object_to_subfiling(error)
        end associate
        call cannot(error, settings%has_no_array, 'hdf5 writes arrays, and this ' &
            //'--operation has none: leave --backend out')
        call cannot(error, settings%outlives_failures, 'hdf5 can close no file after a write ' &
            //'that failed, and --targets is to go on: leave out the backend hdf5')
    end function objection

    !> HDF5 makes subfiles, and has no nonblocking transfers here.
    pure type(access_pattern) function heeded(access)
        type(access_pattern), intent(in) :: access

        heeded = access
        heeded%is_nonblocking = .false.
    end function heeded

    pure function companions(settings) result(mark)
        type(io_settings), intent(in) :: settings
        character(:), allocatable :: mark

        mark = ''
        if (settings%access%subfiles > 0) mark = subfile_mark
    end function companions

    subroutine open_in_library(self, writes, error)
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
            call h5pclose_f(access, ignored)
        else
            call open_with(access, self%path, self%file, error)
        end if
        allocate (self%datasets(self%settings%access%variables), source=none)
    end subroutine open_in_library

    subroutine define(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hid_t) :: creation, space
        integer(hsize_t) :: extents(4), most(4)
        integer(int64) :: chunk(3)
        integer :: code, dimensions, i, ignored

        do i = 1, merge(0, size(self%datasets), self%writes)
            call h5dopen_f(self%file, self%settings%access%variable_name(i), self%datasets(i), code)
            call check_hdf5(error, code, 'H5Dopen', self%path)
        end do
        if (.not. self%writes) return
        dimensions = dimensions_of(self)
        call h5pcreate_f(h5p_dataset_create_f, creation, code)
        call check_hdf5(error, code, 'H5Pcreate', self%path)
        call h5pset_fill_time_f(creation, h5d_fill_time_never_f, code)
        call check_hdf5(error, code, 'H5Pset_fill_time', self%path)
        extents = 1
        chunk = self%chunk()
        extents(:3) = int(chunk, hsize_t)
        if (all(extents > 0)) then
            call h5pset_chunk_f(creation, dimensions, extents, code)
            call check_hdf5(error, code, 'H5Pset_chunk', self%path)
        end if
        if (self%settings%access%deflate > 0) then
            call h5pset_shuffle_f(creation, code)
            call check_hdf5(error, code, 'H5Pset_shuffle', self%path)
            call h5pset_deflate_f(creation, self%settings%access%deflate, code)
            call check_hdf5(error, code, 'H5Pset_deflate', self%path)
        end if
        extents = extents_of(self, 0)       ! steps are appended
        most = extents
        most(4) = h5s_unlimited_f
        call h5screate_simple_f(dimensions, extents, space, code, most)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        do i = 1, size(self%datasets)
            call h5dcreate_f(self%file, self%settings%access%variable_name(i), h5t_native_double, &
                space, self%datasets(i), code, dcpl_id=creation)
            call check_hdf5(error, code, 'H5Dcreate', self%path)
        end do
        call h5sclose_f(space, ignored)
        call h5pclose_f(creation, ignored)
    end subroutine define

    !> Returns the number of a dataset's dimensions, time included.
    pure integer function dimensions_of(self)
        class(hdf5_backend), intent(in) :: self

        dimensions_of = merge(4, 3, self%settings%access%steps > 1)
    end function dimensions_of

    !> Returns the extents of a dataset with so many steps, x first. The fourth counts where there
    !> are steps.
    pure function extents_of(self, steps) result(extents)
        class(hdf5_backend), intent(in) :: self
        integer, intent(in) :: steps
        integer(hsize_t) :: extents(4)

        integer(int64) :: layer(3)

        layer = self%block%layer()
        extents(:3) = int(layer, hsize_t)
        extents(4) = steps
    end function extents_of

    !> The extents in memory that pieces are selected in, and the mode of transfer.
    subroutine select_block(self, error)
        class(hdf5_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(hsize_t) :: extents(3)
        integer :: code

        call free_selection(self)
        extents = int(self%block%extent + 2*self%block%halo, hsize_t)
        call h5screate_simple_f(3, extents, self%in_memory, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        if (self%transfer /= none) return
        call h5pcreate_f(h5p_dataset_xfer_f, self%transfer, code)
        call check_hdf5(error, code, 'H5Pcreate', self%path)
        call h5pset_dxpl_mpio_f(self%transfer, merge(h5fd_mpio_collective_f, &
            h5fd_mpio_independent_f, self%settings%collective), code)
        call check_hdf5(error, code, 'H5Pset_dxpl_mpio', self%path)
    end subroutine select_block

    !> The extents in the file that pieces of a step are selected in. A step that is written is
    !> first appended, to all variables, collectively.
    subroutine use_step(self, writes, step, error)
        class(hdf5_backend), intent(inout) :: self
        logical, intent(in) :: writes
        integer, intent(in) :: step                 !! from 0
        type(failure), intent(inout) :: error

        integer(hsize_t) :: extents(4)
        integer :: code, i, ignored

        if (self%step == step) return
        extents = extents_of(self, merge(step + 1, self%settings%access%steps, writes))
        if (self%in_file /= none) call h5sclose_f(self%in_file, ignored)
        call h5screate_simple_f(dimensions_of(self), extents, self%in_file, code)
        call check_hdf5(error, code, 'H5Screate_simple', self%path)
        self%step = step
        if (.not. writes .or. self%settings%access%steps == 1) return
        do i = 1, size(self%datasets)
            call h5dset_extent_f(self%datasets(i), extents, code)
            call check_hdf5(error, code, 'H5Dset_extent', self%path)
        end do
    end subroutine use_step

    subroutine move_piece(self, writes, part, memory, room, error)
        class(hdf5_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        type(c_ptr) :: buffer
        integer(hid_t) :: dataset
        integer(int64) :: corner(4), extent(4)
        integer :: code, variable

        call self%find_piece(part, variable, corner, extent)
        dataset = self%datasets(variable)
        call use_step(self, writes, int(corner(4)), error)
        call select_box(self, corner, extent, error)
        buffer = c_loc(memory)
        if (writes) then
            call h5dwrite_f(dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dwrite', self%path)
        else
            call h5dread_f(dataset, h5t_native_double, buffer, code, &
                mem_space_id=self%in_memory, file_space_id=self%in_file, xfer_prp=self%transfer)
            call check_hdf5(error, code, 'H5Dread', self%path)
        end if
    end subroutine move_piece

    !> Selects a piece in the file and in memory; nothing for an empty one.
    subroutine select_box(self, corner, extent, error)
        class(hdf5_backend), intent(inout) :: self
        integer(int64), intent(in) :: corner(4), extent(4)
        type(failure), intent(inout) :: error

        integer(hsize_t), parameter :: origin(3) = 0
        integer(hsize_t) :: start(4), lengths(4)
        integer :: code

        if (any(extent == 0)) then
            call h5sselect_none_f(self%in_file, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            call h5sselect_none_f(self%in_memory, code)
            call check_hdf5(error, code, 'H5Sselect_none', self%path)
            return
        end if
        start = int(corner, hsize_t)
        lengths = int(extent, hsize_t)
        call h5sselect_hyperslab_f(self%in_file, h5s_select_set_f, start, lengths, code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
        call h5sselect_hyperslab_f(self%in_memory, h5s_select_set_f, origin, lengths(:3), code)
        call check_hdf5(error, code, 'H5Sselect_hyperslab', self%path)
    end subroutine select_box

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

        integer :: code, i

        call free_selection(self)
        do i = 1, size(self%datasets)
            if (self%datasets(i) == none) cycle
            call h5dclose_f(self%datasets(i), code)
            call check_hdf5(error, code, 'H5Dclose', self%path)
        end do
        call h5fclose_f(self%file, code)
        call check_hdf5(error, code, 'H5Fclose', self%path)
    end subroutine close

    subroutine find_parts(path, settings, comm, parts, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(MPI_Comm), intent(in) :: comm
        type(file_parts), intent(inout) :: parts
        type(failure), intent(inout) :: error

        integer :: rank

        if (settings%access%subfiles == 0) return
        call MPI_Comm_rank(comm, rank)
        if (rank == 0) call find_subfiles(path, settings%access%subfiles, parts, error)
        call agree(error, comm)
        if (.not. error%failed()) call parts%share(comm)
    end subroutine find_parts

    !> Says whether the last transfer was collective, and if not why: HDF5 falls back silently. The
    !> properties of the transfer know it after the close; empty if they do not say.
    function kind_of_transfer(self) result(text)
        class(hdf5_backend), intent(inout) :: self
        character(:), allocatable :: text

        character(24), parameter :: causes(0:5) = [character(24) :: 'independent requested', &
            'datatype conversion', 'data transform', 'MPI types disabled', 'dataspace', &
            'dataset layout']
        integer(c_int32_t) :: local, global
        integer :: code, mode, i

        text = ''
        if (self%transfer == none) return
        call h5pget_mpio_actual_io_mode_f(self%transfer, mode, code)
        if (code < 0) return
        select case (mode)          ! H5D_mpio_actual_io_mode_t
        case (2, 4)
            text = 'collective'
            return
        case (3)
            text = 'mixed'
        case default
            text = 'independent'
        end select
        if (h5pget_no_collective_cause(self%transfer, local, global) < 0) return
        do i = 0, ubound(causes, 1)
            if (btest(global, i)) text = text//', '//trim(causes(i))
        end do
    end function kind_of_transfer

    !> Frees what kind_of_transfer needs after the close.
    subroutine free_transfer(self)
        type(hdf5_backend), intent(inout) :: self

        integer :: ignored

        if (self%transfer /= none) call h5pclose_f(self%transfer, ignored)
        self%transfer = none
    end subroutine free_transfer

    !> HDF5 1.17 has no word on an open file with subfiles, but on the properties of one to be
    !> opened.
    subroutine echo(path, settings, collective_metadata, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        character(:), allocatable, intent(out) :: collective_metadata
        type(failure), intent(inout) :: error

        integer(hid_t) :: access, file
        integer :: code, ignored

        collective_metadata = ''
        call new_access(access, MPI_COMM_SELF, settings, path, error)
        if (error%failed()) return
        if (settings%access%subfiles == 0) then
            call open_with(access, path, file, error)
            if (error%failed()) return
            call h5fget_access_plist_f(file, access, code)
            call check_hdf5(error, code, 'H5Fget_access_plist', path)
            call h5fclose_f(file, ignored)
            if (error%failed()) return
        end if
        collective_metadata = echoed_collective_metadata(access)
        call h5pclose_f(access, ignored)
    end subroutine echo

    !> Opens a file that is there, and closes the properties of its access.
    subroutine open_with(access, path, file, error)
        integer(hid_t), intent(in) :: access
        character(*), intent(in) :: path
        integer(hid_t), intent(out) :: file
        type(failure), intent(inout) :: error

        integer :: code, ignored

        call h5fopen_f(path, h5f_acc_rdonly_f, file, code, access_prp=access)
        call check_hdf5(error, code, 'H5Fopen', path)
        call h5pclose_f(access, ignored)
    end subroutine open_with

    !> Finds the datasets of native doubles in a closed file; not collective. Each is one run of
    !> bytes, or has chunks.
    !>
    !> Opened through MPI-IO: HDF5's own driver would lock the file, which a filesystem may refuse.
    subroutine dataset_place(path, settings, place, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        integer(c_int64_t), parameter :: not_one_run = -1   ! HADDR_UNDEF: chunked, for instance
        integer(hid_t) :: access, dataset, file
        integer :: code, i

        call new_access(access, MPI_COMM_SELF, settings, path, error)
        if (.not. error%failed()) call open_with(access, path, file, error)
        if (error%failed()) return
        allocate (place%offsets(settings%access%variables), source=0_int64)
        do i = 1, size(place%offsets)
            call h5dopen_f(file, settings%access%variable_name(i), dataset, code)
            call check_hdf5(error, code, 'H5Dopen', path)
            if (code < 0) exit
            place%offsets(i) = h5dget_offset(dataset)
            call h5dclose_f(dataset, code)
            call check_hdf5(error, code, 'H5Dclose', path)
        end do
        place%is_contiguous = all(place%offsets /= not_one_run)
        call h5fclose_f(file, code)
        call check_hdf5(error, code, 'H5Fclose', path)
    end subroutine dataset_place

    subroutine free_selection(self)
        class(hdf5_backend), intent(inout) :: self

        integer :: ignored

        if (self%in_memory /= none) call h5sclose_f(self%in_memory, ignored)
        if (self%in_file /= none) call h5sclose_f(self%in_file, ignored)
        self%in_memory = none
        self%in_file = none
        self%step = -1
    end subroutine free_selection

end module benchio_hdf5_backend
