!> A failure: the call, where it failed, and the agreement of all ranks on it.
module benchio_failure
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_COMM_WORLD, MPI_Error_string, MPI_Get_processor_name, MPI_INTEGER, MPI_INT64_T, &
        MPI_MAX_ERROR_STRING, MPI_MAX_PROCESSOR_NAME, MPI_MIN, MPI_SUCCESS
    use benchio_text, only: decimal, one_line
    implicit none (type, external)
    private

    !> Exit codes of benchio.
    integer, parameter, public :: exit_ok = 0, exit_internal = 1, exit_usage = 2, exit_io = 3, &
        exit_verification = 4, exit_time_limit = 5, exit_not_built_in = 6, exit_library = 7

    !> A failed call; nothing failed as long as status is exit_ok.
    type, public :: failure
        integer :: status = exit_ok                 !! exit code it leads to
        integer :: rank = 0                         !! of all ranks, the one that met it
        character(:), allocatable :: host           !! where that rank runs
        character(:), allocatable :: call           !! the library's own name of the call
        character(:), allocatable :: path           !! file or directory
        character(:), allocatable :: message        !! what the library said
    contains
        procedure :: failed
        procedure :: set
        procedure :: line
    end type failure

    public :: agree, check_mpi

    integer, parameter :: text_size = 4096

contains

    elemental logical function failed(self)
        class(failure), intent(in) :: self

        failed = self%status /= exit_ok
    end function failed

    !> Records a failure; the first one stays.
    subroutine set(self, status, call, path, message)
        class(failure), intent(inout) :: self
        integer, intent(in) :: status
        character(*), intent(in) :: call, path, message

        character(MPI_MAX_PROCESSOR_NAME) :: host
        integer :: length

        if (self%failed()) return
        call MPI_Comm_rank(MPI_COMM_WORLD, self%rank)
        call MPI_Get_processor_name(host, length)
        self%host = host(:length)
        self%status = status
        self%call = call
        self%path = path
        self%message = one_line(message)    ! MPICH's have several
    end subroutine set

    !> Returns the failure as the one line a user reads; of one that is no call's the message alone.
    function line(self) result(text)
        class(failure), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%call /= '') text = 'rank '//decimal(self%rank)//' on '//self%host//': ' &
            //self%call//': '
        if (self%path /= '') text = text//self%path//': '
        text = one_line(text//self%message)
    end function line

    !> Records an unsuccessful return code of an MPI call.
    subroutine check_mpi(error, code, call, path)
        type(failure), intent(inout) :: error
        integer, intent(in) :: code
        character(*), intent(in) :: call, path

        character(MPI_MAX_ERROR_STRING) :: text
        integer :: length

        if (code == MPI_SUCCESS) return
        call MPI_Error_string(code, text, length)
        call error%set(exit_io, call, path, text(:length))
    end subroutine check_mpi

    !> Makes every rank hold the same failure, or none. Collective.
    !>
    !> The lowest exit code counts (an I/O error explains a failed verification), and among equal
    !> ones the lowest rank.
    subroutine agree(error, comm)
        type(failure), intent(inout) :: error
        type(MPI_Comm), intent(in) :: comm

        integer(int64), parameter :: above_ranks = 2_int64**32
        character(text_size) :: texts(4)
        integer(int64) :: mine, first
        integer :: rank, root

        mine = huge(mine)
        if (error%failed()) mine = error%status*above_ranks + error%rank
        call MPI_Allreduce(mine, first, 1, MPI_INT64_T, MPI_MIN, comm)
        if (first == huge(first)) return

        ! Several ranks may know of it already, from an agreement of fewer.
        call MPI_Comm_rank(comm, rank)
        call MPI_Allreduce(merge(rank, huge(rank), mine == first), root, 1, MPI_INTEGER, MPI_MIN, &
            comm)
        error%status = int(first/above_ranks)
        error%rank = int(mod(first, above_ranks))
        texts = ''
        if (rank == root) then
            texts(1) = error%call
            texts(2) = error%path
            texts(3) = error%message
            texts(4) = error%host
        end if
        call MPI_Bcast(texts, size(texts)*text_size, MPI_CHARACTER, root, comm)
        error%call = trim(texts(1))
        error%path = trim(texts(2))
        error%message = trim(texts(3))
        error%host = trim(texts(4))
    end subroutine agree

end module benchio_failure
