!> The result of a run, and what may be said of it.
!>
!> The law is kept here: a rate leaves benchio only from rounds in which nothing failed and the
!> data were read back.
module benchio_result
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Gather, MPI_REAL8
    use benchio_decomposition, only: decomposition, element_bytes
    use benchio_failure, only: exit_ok, exit_time_limit, failure
    use benchio_filesystem, only: name_listed
    use benchio_measurement, only: repetition
    use benchio_posix, only: peak_rss
    use benchio_statistics, only: statistics, summarise
    use benchio_team, only: team
    implicit none (type, external)
    private

    public :: cache_suspect, contiguous_bytes, gather_memory, has_cases, summary, verified

    real(real64), parameter :: mib = 2.0_real64**20

    !> Of one run, complete on rank 0.
    type, public :: run_result
        type(team) :: group
        integer(int64) :: bytes = 0                         !! of all files, each round
        character(:), allocatable :: started
        character(256), allocatable :: host_of_rank(:)
        type(repetition), allocatable :: records(:, :)      !! (case, round)
        integer :: completed = 0                            !! rounds
        real(real64) :: field_mib = 0, peak_rss_mib = 0     !! of the rank that has most
        integer :: peak_rank = 0
        type(failure) :: error
    end type run_result

contains

    !> Collective: the memory high-water mark, after the last round.
    subroutine gather_memory(run, comm)
        type(run_result), intent(inout) :: run
        type(MPI_Comm), intent(in) :: comm

        real(real64), allocatable :: of_rank(:, :)
        real(real64) :: mine(2)
        integer :: rank, writers

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, writers)
        allocate (of_rank(2, merge(writers, 0, rank == 0)))
        mine = [real(run%group%own%block%field_bytes(), real64), real(peak_rss(), real64)]/mib
        call MPI_Gather(mine, 2, MPI_REAL8, of_rank, 2, MPI_REAL8, 0, comm)
        if (rank /= 0) return
        run%field_mib = maxval(of_rank(1, :))
        run%peak_rss_mib = maxval(of_rank(2, :))
        run%peak_rank = maxloc(of_rank(2, :), dim=1) - 1
    end subroutine gather_memory

    !> A run that met its time limit keeps the rounds it completed, if one was measured.
    pure logical function has_cases(run)
        type(run_result), intent(in) :: run

        has_cases = run%error%status == exit_ok .or. (run%error%status == exit_time_limit &
            .and. run%completed > run%group%choice%warmup .and. verified(run))
    end function has_cases

    !> Whether the run's figures are worth the name.
    pure logical function verified(run)
        type(run_result), intent(in) :: run

        verified = .false.
        if (run%completed == 0) return
        select case (run%group%choice%verify)
        case ('all')
            verified = all(run%records(:, :run%completed)%verified)
        case ('last')
            verified = all(run%records(:, run%completed)%verified)
        case default
            verified = .false.
        end select
    end function verified

    !> Whether a cache cannot be excluded: unless the page caches were seen to be empty, and either
    !> the data came from another node or the filesystem has no cache but the kernel's.
    pure logical function cache_suspect(run, backend)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend

        real(real64), parameter :: negligible = 0.01_real64

        associate (cache => run%group%cache(backend))
            cache_suspect = cache%resident > negligible .or. (cache%other_node < 1.0_real64 &
                .and. .not. name_listed(run%group%place%filesystem, 'ext4,xfs,btrfs'))
        end associate
    end function cache_suspect

    !> The run of bytes that rank 0's block has in one piece in the file: the size of request that
    !> the pattern implies.
    pure integer(int64) function contiguous_bytes(block)
        type(decomposition), intent(in) :: block

        contiguous_bytes = element_bytes*block%extent(1)
        if (block%extent(1) < block%global(1)) return
        contiguous_bytes = contiguous_bytes*block%extent(2)
        if (block%extent(2) < block%global(2)) return
        contiguous_bytes = contiguous_bytes*block%extent(3)
    end function contiguous_bytes

    !> Of one rate of one case over the measured rounds.
    pure function summary(run, number, rate) result(of)
        type(run_result), intent(in) :: run
        integer, intent(in) :: number, rate
        type(statistics) :: of

        real(real64) :: values(run%completed - run%group%choice%warmup)
        integer :: i

        do i = 1, size(values)
            values(i) = run%records(number, run%group%choice%warmup + i)%rates(rate)
        end do
        of = summarise(values)
    end function summary

end module benchio_result
