!> One repetition of one backend: the clock, the read-back, and what is kept of both.
!>
!> Every rank times its own calls by its own monotonic clock; durations, never times of day, are
!> compared. After each call the ranks agree that it succeeded everywhere, so they enter the next
!> phase together. That agreement is inside total and in no phase.
module benchio_measurement
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Barrier, MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Gather, &
        MPI_REAL8
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_io, exit_verification, failure
    use benchio_pattern, only: count_mismatches, halo_intact, poison
    use benchio_posix, only: file_size
    use benchio_text, only: decimal
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: measure_write, reduce_times, verify_file

    integer, parameter, public :: phase_open = 1, phase_define = 2, phase_write = 3, &
        phase_sync = 4, phase_close = 5, phase_total = 6, phases = 6
    character(*), parameter, public :: phase_names(phases) = [character(6) :: &
        'open', 'define', 'write', 'sync', 'close', 'total']

    integer, parameter, public :: rate_data = 1, rate_stable = 2, rate_total = 3, rates = 3
    character(*), parameter, public :: rate_names(rates) = [character(6) :: &
        'data', 'stable', 'total']

    !> Seconds of a phase over ranks.
    type, public :: phase_time
        real(real64) :: min = 0, mean = 0, max = 0
        integer :: slowest_rank = 0
    end type phase_time

    !> What rank 0 keeps of a repetition; meaningless on other ranks.
    type, public :: repetition
        integer :: round = 0, position = 0
        logical :: warmup = .false.
        logical :: verified = .false.
        type(phase_time) :: times(phases)
        real(real64) :: rates(rates) = 0        !! MiB/s
    end type repetition

contains

    !> Collective: writes the block by one backend; seconds of each phase on this rank.
    subroutine measure_write(method, path, block, field, sync, dog, comm, seconds, created, error)
        class(backend), intent(inout) :: method
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        logical, intent(in) :: sync                 !! force the data to stable storage
        type(watchdog), intent(in) :: dog
        type(MPI_Comm), intent(in) :: comm
        real(real64), intent(out) :: seconds(phases)
        logical, intent(out) :: created             !! the file is ours: this rank has made it
        type(failure), intent(inout) :: error

        type(failure) :: ignored
        real(real64) :: start

        seconds = 0
        call MPI_Barrier(comm)
        start = now()
        call begin(phase_open)
        call method%create(path, block, comm, error)
        created = .not. error%failed()
        call finish(phase_open)
        if (error%failed()) return

        call begin(phase_define)
        call method%define(error)
        call finish(phase_define)
        if (.not. error%failed()) then
            call begin(phase_write)
            call method%write(field, error)
            call finish(phase_write)
        end if
        if (sync .and. .not. error%failed()) then
            call begin(phase_sync)
            call method%sync(error)
            call finish(phase_sync)
        end if
        call begin(phase_close)
        if (error%failed()) then
            call method%close(ignored)      ! the library must let go of the file
            call dog%rest()
            return
        end if
        call method%close(error)
        seconds(phase_total) = now() - start
        call finish(phase_close)

    contains

        subroutine begin(phase)
            integer, intent(in) :: phase

            call dog%watch(trim(phase_names(phase)))
            seconds(phase) = -now()
        end subroutine begin

        subroutine finish(phase)
            integer, intent(in) :: phase

            seconds(phase) = seconds(phase) + now()
            call meet(dog, int(seconds(phase)), comm, error)
        end subroutine finish

    end subroutine measure_write

    !> Collective: reads the file back into the field, through new handles, and compares every bit.
    !>
    !> The size comes first: a read past the end of a short file reports success.
    subroutine verify_file(method, path, block, field, key, dog, comm, error)
        class(backend), intent(inout) :: method
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        integer(int64), intent(in) :: key           !! of the pattern written
        type(watchdog), intent(in) :: dog
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        type(failure) :: ignored
        real(real64) :: start

        call check_size(path, block%global_bytes(), comm, error)
        if (error%failed()) return
        call poison(field)
        start = now()
        call dog%watch('verify')
        call method%open(path, block, comm, error)
        call meet(dog, int(now() - start), comm, error)
        if (error%failed()) return

        call dog%watch('verify')
        call method%read(field, error)
        call meet(dog, int(now() - start), comm, error)
        call dog%watch('verify')
        if (error%failed()) then
            call method%close(ignored)
        else
            call method%close(error)
        end if
        call dog%rest()
        if (.not. error%failed()) call compare(path, block, field, key, error)
        call agree(error, comm)
    end subroutine verify_file

    !> Whether the field holds the pattern and its halo what it held before.
    subroutine compare(path, block, field, key, error)
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        real(real64), intent(in), contiguous :: field(:, :, :)
        integer(int64), intent(in) :: key
        type(failure), intent(inout) :: error

        integer(int64) :: mismatches, first(3)

        call count_mismatches(field, block, key, mismatches, first)
        if (mismatches > 0) then
            call error%set(exit_verification, 'verify', path, decimal(mismatches)//' of ' &
                //decimal(block%elements())//' elements differ from what was written, the first' &
                //' at x,y,z = '//decimal(first(1))//','//decimal(first(2))//',' &
                //decimal(first(3)))
        else if (.not. halo_intact(field, block)) then
            call error%set(exit_verification, 'verify', path, 'the halo was overwritten')
        end if
    end subroutine compare

    !> Collective: the agreement that ends a phase, watched.
    subroutine meet(dog, seconds, comm, error)
        type(watchdog), intent(in) :: dog
        integer, intent(in) :: seconds              !! since the phase began
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        if (error%failed()) call dog%watch_failed(error, seconds)
        call agree(error, comm)
        call dog%rest()
    end subroutine meet

    !> Collective: on rank 0 the times of all ranks in brief, and the rates they give.
    subroutine reduce_times(seconds, bytes, comm, record)
        real(real64), intent(in) :: seconds(phases)     !! of this rank
        integer(int64), intent(in) :: bytes             !! of all ranks
        type(MPI_Comm), intent(in) :: comm
        type(repetition), intent(inout) :: record

        real(real64), allocatable :: all_seconds(:, :)
        real(real64) :: slowest(rates)
        integer :: i, rank, writers

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, writers)
        allocate (all_seconds(phases, merge(writers, 0, rank == 0)))
        call MPI_Gather(seconds, phases, MPI_REAL8, all_seconds, phases, MPI_REAL8, 0, comm)
        if (rank /= 0) return

        do i = 1, phases
            record%times(i)%min = minval(all_seconds(i, :))
            record%times(i)%mean = sum(all_seconds(i, :))/writers
            record%times(i)%max = maxval(all_seconds(i, :))
            record%times(i)%slowest_rank = maxloc(all_seconds(i, :), dim=1) - 1
        end do
        slowest(rate_data) = record%times(phase_write)%max
        slowest(rate_stable) = maxval(all_seconds(phase_write, :) + all_seconds(phase_sync, :))
        slowest(rate_total) = record%times(phase_total)%max
        record%rates = real(bytes, real64)/2_int64**20/slowest
    end subroutine reduce_times

    subroutine check_size(path, expected, comm, error)
        character(*), intent(in) :: path
        integer(int64), intent(in) :: expected
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer(int64) :: bytes
        integer :: rank

        call MPI_Comm_rank(comm, rank)
        if (rank == 0) then
            call file_size(path, bytes, message)
            if (message /= '') then
                call error%set(exit_io, 'stat', path, message)
            else if (bytes < expected) then
                call error%set(exit_io, 'stat', path, 'file has '//decimal(bytes)//' bytes, ' &
                    //decimal(expected)//' bytes of data were written')
            end if
        end if
        call agree(error, comm)
    end subroutine check_size

    !> Seconds of a monotonic clock of this process.
    real(real64) function now()
        integer(int64) :: count, rate

        call system_clock(count, rate)
        now = real(count, real64)/real(rate, real64)
    end function now

end module benchio_measurement
