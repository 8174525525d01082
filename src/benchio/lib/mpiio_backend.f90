!> MPI-IO: the array as raw native reals, x fastest; collective writes through a subarray view.
!>
!> The block is selected in memory by a second subarray type, so halos cost no copy. A block of more
!> than 1 GiB is moved in pieces: ROMIO crashes on more than 2 GiB in one call.
module benchio_mpiio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_COUNT_KIND, MPI_Comm, MPI_Datatype, &
        MPI_DATATYPE_NULL, MPI_File, MPI_File_close, MPI_File_get_info, MPI_File_open, &
        MPI_File_read_at, MPI_File_read_at_all, MPI_File_set_view, MPI_File_sync, &
        MPI_File_write_at, MPI_File_write_at_all, MPI_Get_elements_x, MPI_IN_PLACE, MPI_Info, &
        MPI_Info_free, MPI_INFO_NULL, MPI_INTEGER8, MPI_MAX, MPI_MODE_CREATE, MPI_MODE_EXCL, &
        MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_OFFSET_KIND, MPI_ORDER_FORTRAN, MPI_REAL8, &
        MPI_Status, MPI_Type_commit, MPI_Type_create_subarray, MPI_Type_free, operator(/=)
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: check_mpi, exit_io, failure
    use benchio_settings, only: hint, info_of, io_settings, list_hints
    use benchio_slabs, only: new_slabs, slabs
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    integer(int64), parameter :: piece_bytes = 2_int64**30

    type, extends(backend), public :: mpiio_backend
        private
        type(decomposition) :: block
        type(io_settings) :: settings
        character(:), allocatable :: path
        type(MPI_File) :: file
        type(MPI_Comm) :: comm
        type(MPI_Datatype) :: in_file = MPI_DATATYPE_NULL, in_memory = MPI_DATATYPE_NULL
        type(slabs) :: cut                          !! of this rank's block
        integer(int64) :: pieces = 1                !! of the rank that has most
        type(hint), allocatable :: echo(:)
    contains
        procedure :: create
        procedure :: define
        procedure :: select
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
        procedure :: echoed_hints
    end type mpiio_backend

contains

    subroutine create(self, path, global, comm, settings, error)
        class(mpiio_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        call open_with(self, path, global, comm, settings, &
            MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, error)
    end subroutine create

    subroutine open(self, path, global, comm, settings, error)
        class(mpiio_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        call open_with(self, path, global, comm, settings, MPI_MODE_RDONLY, error)
    end subroutine open

    subroutine open_with(self, path, global, comm, settings, mode, error)
        class(mpiio_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        integer, intent(in) :: mode
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer :: code

        self%block%global = global
        self%path = path
        self%comm = comm
        self%settings = settings
        info = info_of(settings)
        call MPI_File_open(comm, path, mode, info, self%file, code)
        call check_mpi(error, code, 'MPI_File_open', path)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
    end subroutine open_with

    !> A raw file says nothing of its array; what the open file repeats of its hints is kept.
    subroutine define(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer :: code

        call MPI_File_get_info(self%file, info, code)
        call check_mpi(error, code, 'MPI_File_get_info', self%path)
        if (error%failed()) return
        call list_hints(info, self%echo)
        call MPI_Info_free(info)
    end subroutine define

    subroutine select(self, block, error)
        class(mpiio_backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        integer :: code, sizes(3), subsizes(3), starts(3)

        call free_types(self)
        self%block = block
        self%cut = new_slabs(block%extent, piece_bytes)
        self%pieces = self%cut%number_of()
        call MPI_Allreduce(MPI_IN_PLACE, self%pieces, 1, MPI_INTEGER8, MPI_MAX, self%comm)

        subsizes = int(block%extent)
        sizes = int(block%global)
        starts = int(block%lower)
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, &
            MPI_REAL8, self%in_file)
        call MPI_Type_commit(self%in_file)
        call set_piece(self, 1_int64)
        call MPI_File_set_view(self%file, 0_MPI_OFFSET_KIND, MPI_REAL8, self%in_file, 'native', &
            MPI_INFO_NULL, code)
        call check_mpi(error, code, 'MPI_File_set_view', self%path)
    end subroutine select

    !> The type of a piece in memory; past this rank's last piece, that piece's again.
    subroutine set_piece(self, piece)
        class(mpiio_backend), intent(inout) :: self
        integer(int64), intent(in) :: piece

        integer :: sizes(3), subsizes(3), starts(3)
        integer(int64) :: before(3), extent(3)

        if (self%in_memory /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_memory)
        call self%cut%bounds(min(piece, self%cut%number_of()), before, extent)
        sizes = int(self%block%extent + 2*self%block%halo)
        subsizes = int(extent)
        starts = int(self%block%halo + before)
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_REAL8, &
            self%in_memory)
        call MPI_Type_commit(self%in_memory)
    end subroutine set_piece

    !> Where a piece begins in the view, in elements, and how often its type is moved: once, or not
    !> at all past this rank's last piece, for the collective call that others still make.
    subroutine place_piece(self, piece, offset, count)
        class(mpiio_backend), intent(inout) :: self
        integer(int64), intent(in) :: piece
        integer(MPI_OFFSET_KIND), intent(out) :: offset
        integer, intent(out) :: count

        integer(int64) :: before(3), extent(3)

        if (self%pieces > 1) call set_piece(self, piece)
        call self%cut%bounds(piece, before, extent)
        associate (n => self%block%extent)
            offset = before(1) + n(1)*(before(2) + n(2)*before(3))
        end associate
        count = merge(1, 0, piece <= self%cut%number_of())
    end subroutine place_piece

    subroutine write(self, field, error)
        class(mpiio_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(MPI_Status) :: status
        integer(MPI_OFFSET_KIND) :: offset
        integer(int64) :: piece
        integer :: code, count

        do piece = 1, self%pieces   ! every rank makes all collective calls, even after a failure
            call place_piece(self, piece, offset, count)
            if (self%settings%collective) then
                call MPI_File_write_at_all(self%file, offset, field, count, self%in_memory, &
                    status, code)
                call check_mpi(error, code, 'MPI_File_write_at_all', self%path)
                call check_count(self, piece, status, 'MPI_File_write_at_all', error)
            else if (count > 0) then
                call MPI_File_write_at(self%file, offset, field, count, self%in_memory, status, &
                    code)
                call check_mpi(error, code, 'MPI_File_write_at', self%path)
                call check_count(self, piece, status, 'MPI_File_write_at', error)
            end if
        end do
    end subroutine write

    subroutine sync(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call MPI_File_sync(self%file, code)
        call check_mpi(error, code, 'MPI_File_sync', self%path)
    end subroutine sync

    subroutine close(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call free_types(self)
        call MPI_File_close(self%file, code)
        call check_mpi(error, code, 'MPI_File_close', self%path)
    end subroutine close

    subroutine read(self, field, error)
        class(mpiio_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(MPI_Status) :: status
        integer(MPI_OFFSET_KIND) :: offset
        integer(int64) :: piece
        integer :: code, count

        do piece = 1, self%pieces
            call place_piece(self, piece, offset, count)
            if (self%settings%collective) then
                call MPI_File_read_at_all(self%file, offset, field, count, self%in_memory, &
                    status, code)
                call check_mpi(error, code, 'MPI_File_read_at_all', self%path)
                call check_count(self, piece, status, 'MPI_File_read_at_all', error)
            else if (count > 0) then
                call MPI_File_read_at(self%file, offset, field, count, self%in_memory, status, &
                    code)
                call check_mpi(error, code, 'MPI_File_read_at', self%path)
                call check_count(self, piece, status, 'MPI_File_read_at', error)
            end if
        end do
    end subroutine read

    function echoed_hints(self) result(hints)
        class(mpiio_backend), intent(in) :: self
        type(hint), allocatable :: hints(:)

        if (allocated(self%echo)) then
            hints = self%echo
        else
            allocate (hints(0))
        end if
    end function echoed_hints

    subroutine free_types(self)
        class(mpiio_backend), intent(inout) :: self

        if (self%in_file /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_file)
        if (self%in_memory /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_memory)
    end subroutine free_types

    !> MPI reports a short transfer as success: the status must hold the whole piece.
    subroutine check_count(self, piece, status, call, error)
        class(mpiio_backend), intent(in) :: self
        integer(int64), intent(in) :: piece
        type(MPI_Status), intent(in) :: status
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        integer(MPI_COUNT_KIND) :: moved
        integer(int64) :: before(3), extent(3)

        if (error%failed()) return
        call self%cut%bounds(piece, before, extent)
        if (all(extent == 0)) return    ! no more of this rank's
        call MPI_Get_elements_x(status, MPI_REAL8, moved)
        if (moved /= product(extent)) then
            call error%set(exit_io, call, self%path, 'short transfer: ' &
                //decimal(int(moved, int64))//' of '//decimal(product(extent))//' elements')
        end if
    end subroutine check_count

end module benchio_mpiio_backend
