!> MPI-IO: the array as raw native reals, x fastest; each rank's block is its view of the file.
!>
!> A halo costs no copy of ours: a second subarray type selects the piece in memory.
module benchio_mpiio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_COUNT_KIND, MPI_Datatype, MPI_DATATYPE_NULL, MPI_DOUBLE_PRECISION, &
        MPI_File, MPI_File_close, MPI_File_get_info, MPI_File_open, MPI_File_read_at, &
        MPI_File_read_at_all, MPI_File_set_view, MPI_File_sync, MPI_File_write_at, &
        MPI_File_write_at_all, MPI_Get_elements_x, MPI_Info, MPI_Info_free, MPI_INFO_NULL, &
        MPI_MODE_CREATE, MPI_MODE_EXCL, MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_OFFSET_KIND, &
        MPI_ORDER_FORTRAN, MPI_Status, MPI_Type_commit, MPI_Type_create_subarray, MPI_Type_free, &
        operator(/=)
    use benchio_backend, only: backend, cannot
    use benchio_failure, only: check_mpi, exit_io, failure
    use benchio_launcher, only: mpi_version
    use benchio_settings, only: info_of, io_settings, list_hints
    use benchio_text, only: decimal
    use benchio_transfer, only: describe_piece, piece
    implicit none (type, external)
    private

    type, extends(backend), public :: mpiio_backend
        private
        type(MPI_File) :: file
        type(MPI_Datatype) :: in_file = MPI_DATATYPE_NULL
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure :: open_in_library
        procedure :: define
        procedure :: select_block
        procedure :: move_piece
        procedure :: flush
        procedure :: close
    end type mpiio_backend

contains

    function version() result(text)
        character(:), allocatable :: text

        text = mpi_version()
    end function version

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        call cannot(error, settings%access%deflate > 0, 'mpiio writes the bytes as they are: ' &
            //'leave out --deflate, or the backend mpiio')
        call cannot(error, settings%has_no_array, 'mpiio writes arrays, and this ' &
            //'--operation has none: leave --backend out')
    end function objection

    subroutine open_in_library(self, writes, error)
        class(mpiio_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer :: code

        info = info_of(self%settings)
        call MPI_File_open(self%comm, self%path, merge(MPI_MODE_CREATE + MPI_MODE_EXCL &
            + MPI_MODE_WRONLY, MPI_MODE_RDONLY, writes), info, self%file, code)
        call check_mpi(error, code, 'MPI_File_open', self%path)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
    end subroutine open_in_library

    !> A raw file says nothing of its array; what the open file repeats of its hints is kept.
    subroutine define(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer :: code

        if (.not. self%writes) return
        call MPI_File_get_info(self%file, info, code)
        call check_mpi(error, code, 'MPI_File_get_info', self%path)
        if (error%failed()) return
        call list_hints(info, self%hints)
        call MPI_Info_free(info)
    end subroutine define

    subroutine select_block(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code, dimensions, sizes(4), subsizes(4), starts(4)
        integer(int64) :: layer(3)

        if (self%in_file /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_file)
        associate (block => self%block)
            dimensions = merge(4, 3, block%layers > 1)
            sizes = int(block%layers)
            layer = block%layer()
            sizes(:3) = int(layer)
            subsizes = int(block%layers)
            layer = block%layer_of_block()
            subsizes(:3) = int(layer)
            starts = 0
            starts(:3) = int(block%lower)
        end associate
        call MPI_Type_create_subarray(dimensions, sizes, subsizes, starts, MPI_ORDER_FORTRAN, &
            MPI_DOUBLE_PRECISION, self%in_file)
        call MPI_Type_commit(self%in_file)
        call MPI_File_set_view(self%file, 0_MPI_OFFSET_KIND, MPI_DOUBLE_PRECISION, self%in_file, &
            'native', MPI_INFO_NULL, code)
        call check_mpi(error, code, 'MPI_File_set_view', self%path)
    end subroutine select_block

    subroutine move_piece(self, writes, part, memory, room, error)
        class(mpiio_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        type(MPI_Datatype) :: in_memory
        type(MPI_Status) :: status
        integer(MPI_COUNT_KIND) :: moved
        integer(MPI_OFFSET_KIND) :: offset
        character(:), allocatable :: routine
        integer :: code, copies

        call describe_piece(part, room, in_memory, copies)
        associate (n => self%block%extent, before => part%before)
            offset = before(1) + n(1)*(before(2) + n(2)*before(3))
        end associate
        if (writes .and. self%settings%collective) then
            routine = 'MPI_File_write_at_all'
            call MPI_File_write_at_all(self%file, offset, memory, copies, in_memory, status, code)
        else if (self%settings%collective) then
            routine = 'MPI_File_read_at_all'
            call MPI_File_read_at_all(self%file, offset, memory, copies, in_memory, status, code)
        else if (writes) then
            routine = 'MPI_File_write_at'
            call MPI_File_write_at(self%file, offset, memory, copies, in_memory, status, code)
        else
            routine = 'MPI_File_read_at'
            call MPI_File_read_at(self%file, offset, memory, copies, in_memory, status, code)
        end if
        call check_mpi(error, code, routine, self%path)
        if (in_memory /= MPI_DOUBLE_PRECISION) call MPI_Type_free(in_memory)
        if (error%failed() .or. part%elements() == 0) return
        ! MPI reports a short transfer as success: the status must hold the whole piece.
        call MPI_Get_elements_x(status, MPI_DOUBLE_PRECISION, moved)
        if (moved /= part%elements()) then
            call error%set(exit_io, routine, self%path, 'short transfer: ' &
                //decimal(int(moved, int64))//' of '//decimal(part%elements())//' elements')
        end if
    end subroutine move_piece

    subroutine flush(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call MPI_File_sync(self%file, code)
        call check_mpi(error, code, 'MPI_File_sync', self%path)
    end subroutine flush

    subroutine close(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        if (self%in_file /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_file)
        call MPI_File_close(self%file, code)
        call check_mpi(error, code, 'MPI_File_close', self%path)
    end subroutine close

end module benchio_mpiio_backend
