!> POSIX: the array as raw native reals, x fastest; every rank writes its own runs by pwrite.
!>
!> Rows adjacent in the file but parted by a halo in memory go in one vectored call, so nothing is
!> copied; only O_DIRECT, which takes aligned memory, costs a copy of each piece where there is a
!> halo, timed as packing.
module benchio_posix_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Bcast, MPI_Comm_rank, MPI_LOGICAL
    use benchio_access, only: element_bytes
    use benchio_backend, only: backend, cannot
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: exit_io, failure
    use benchio_node_state, only: kernel_version
    use benchio_raw_file, only: raw_file
    use benchio_settings, only: io_settings
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    type, extends(backend), public :: posix_backend
        private
        type(raw_file) :: file
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure, nopass :: path_objection
        procedure, nopass :: packs
        procedure :: open_in_library
        procedure :: move_piece
        procedure :: flush
        procedure :: close
    end type posix_backend

contains

    !> Names the kernel, whose calls these are.
    function version() result(text)
        character(:), allocatable :: text

        text = kernel_version()
    end function version

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        call cannot(error, settings%access%deflate > 0, 'posix writes the bytes as they are: ' &
            //'leave out --deflate, or the backend posix')
    end function objection

    !> The system opens every path.
    function path_objection(directory) result(text)
        character(*), intent(in) :: directory
        character(:), allocatable :: text

        text = ''
    end function path_objection

    !> O_DIRECT takes aligned memory, as an array without a halo is.
    pure logical function packs(block, settings)
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        packs = settings%direct .and. block%halo > 0
    end function packs

    !> Rank 0 makes a new file, then the others open it: two makers would race.
    subroutine open_in_library(self, writes, error)
        class(posix_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        integer :: rank
        logical :: is_made

        is_made = .true.
        if (writes) then
            call MPI_Comm_rank(self%comm, rank)
            if (rank == 0) call open_here(self, .true., .true., error)
            is_made = .not. error%failed()
            call MPI_Bcast(is_made, 1, MPI_LOGICAL, 0, self%comm)
            if (rank == 0) return
        end if
        if (is_made) then
            call open_here(self, writes, .false., error)
        else        ! nobody may take the file for ours
            call error%set(exit_io, 'open', self%path, 'not made by the first rank of the file')
        end if
    end subroutine open_in_library

    subroutine open_here(self, writes, creates, error)
        class(posix_backend), intent(inout) :: self
        logical, intent(in) :: writes, creates
        type(failure), intent(inout) :: error

        call self%file%open(self%path, error, writes, self%settings%direct, creates)
        if (self%settings%direct .and. .not. self%file%is_direct) call error%set(exit_io, 'open', &
            self%path, 'the filesystem refuses O_DIRECT, or may ignore it: leave --direct out')
    end subroutine open_here

    subroutine move_piece(self, writes, part, memory, room, error)
        class(posix_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        integer(int64) :: at(3), offset

        if (error%failed()) return
        at = self%block%lower + part%before
        at(3) = self%block%plane(part%before(3))
        associate (n => self%block%global)
            offset = element_bytes*(at(1) + n(1)*(at(2) + n(2)*at(3)))
        end associate
        call self%file%move_box(writes, memory, room, offset, self%block%global, part%extent, error)
    end subroutine move_piece

    subroutine flush(self, error)
        class(posix_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call self%file%sync(error)
    end subroutine flush

    subroutine close(self, error)
        class(posix_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call self%file%close(error)
    end subroutine close

end module benchio_posix_backend
