!> One write or read of one backend: its clock, and what rank 0 keeps of it.
!>
!> Every rank times its own calls by its own monotonic clock; durations, never times of day, are
!> compared. After each phase the ranks that share a file agree that it succeeded on all of them,
!> so they enter the next one together. That agreement is inside total and in no phase.
module benchio_measurement
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Barrier, MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Gather, &
        MPI_REAL8
    use benchio_backend, only: backend
    use benchio_clock, only: now
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, failure
    use benchio_gather, only: gather_slab, scatter_slab
    use benchio_layout, only: layout
    use benchio_settings, only: io_settings
    use benchio_slabs, only: new_slabs, slabs
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: reduce_times, timed_read, timed_write

    integer, parameter, public :: phase_open = 1, phase_define = 2, phase_gather = 3, &
        phase_pack = 4, phase_write = 5, phase_read = 6, phase_sync = 7, phase_close = 8, &
        phase_total = 9, phases = 9
    character(*), parameter, public :: phase_names(phases) = [character(6) :: &
        'open', 'define', 'gather', 'pack', 'write', 'read', 'sync', 'close', 'total']

    integer, parameter, public :: rate_data = 1, rate_stable = 2, rate_total = 3, rates = 3
    character(*), parameter, public :: rate_names(rates) = [character(6) :: &
        'data', 'stable', 'total']

    !> Of the gather layout's buffer on rank 0.
    integer(int64), parameter :: gather_bytes = 8*2_int64**20

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
        real(real64) :: rates(rates) = 0                    !! MiB/s, of all instances together
        real(real64), allocatable :: of_instance(:)         !! total rate of each, MiB/s
    end type repetition

    !> What a repetition is done with, on one rank.
    type, public :: job
        character(:), allocatable :: path
        type(layout) :: sharers                     !! of this rank's file
        type(decomposition) :: block                !! this rank's part of it
        type(io_settings) :: settings
        type(watchdog) :: dog
        type(MPI_Comm) :: together                  !! ranks that agree after each phase
        logical :: sync = .true.                    !! force the data to stable storage
    end type job

contains

    !> Collective: writes the block; seconds of each phase on this rank.
    subroutine timed_write(method, work, field, comm, seconds, error)
        class(backend), intent(inout) :: method
        type(job), intent(inout) :: work
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(MPI_Comm), intent(in) :: comm          !! all ranks: they start together
        real(real64), intent(out) :: seconds(phases)
        type(failure), intent(inout) :: error

        real(real64) :: start

        seconds = 0
        method%pack_seconds = 0
        call MPI_Barrier(comm)
        call work%dog%watch('open')
        start = now()
        seconds(phase_open) = -start
        if (work%sharers%opens) then
            call method%create(work%path, work%block%global, work%sharers%io, work%settings, error)
        end if
        call finish(work, phase_open, 0.0_real64, seconds, error)
        if (error%failed()) return

        call work%dog%watch('define')
        seconds(phase_define) = -now()
        if (work%sharers%opens) call method%define(error)
        if (work%sharers%opens .and. .not. work%sharers%gather) then
            call method%select(work%block, error)
        end if
        call finish(work, phase_define, 0.0_real64, seconds, error)

        if (.not. error%failed()) then
            call work%dog%watch('write')
            seconds(phase_write) = -now()
            if (work%sharers%gather) then
                call gather_and_write(method, work, field, seconds(phase_gather), error)
            else
                call method%write(field, error)
            end if
            seconds(phase_pack) = method%pack_seconds
            call finish(work, phase_write, seconds(phase_gather) + seconds(phase_pack), seconds, &
                error)
            call forget_waiting(work, seconds)
        end if
        if (work%sync .and. .not. error%failed()) then
            call work%dog%watch('sync')
            seconds(phase_sync) = -now()
            if (work%sharers%opens) call method%sync(error)
            call finish(work, phase_sync, 0.0_real64, seconds, error)
        end if
        call close_file(method, work, start, seconds, error)
    end subroutine timed_write

    !> Collective: reads a block through new handles; seconds of each phase on this rank.
    subroutine timed_read(method, work, field, comm, seconds, error)
        class(backend), intent(inout) :: method
        type(job), intent(inout) :: work
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(MPI_Comm), intent(in) :: comm          !! all ranks: they start together
        real(real64), intent(out) :: seconds(phases)
        type(failure), intent(inout) :: error

        real(real64) :: start

        seconds = 0
        method%pack_seconds = 0
        call MPI_Barrier(comm)
        call work%dog%watch('open')
        start = now()
        seconds(phase_open) = -start
        if (work%sharers%opens) then
            call method%open(work%path, work%block%global, work%sharers%io, work%settings, error)
        end if
        call finish(work, phase_open, 0.0_real64, seconds, error)
        if (error%failed()) return

        call work%dog%watch('read')
        seconds(phase_read) = -now()
        if (work%sharers%gather) then
            call read_and_scatter(method, work, field, seconds(phase_gather), error)
        else
            call method%select(work%block, error)
            if (.not. error%failed()) call method%read(field, error)
        end if
        seconds(phase_pack) = method%pack_seconds
        call finish(work, phase_read, seconds(phase_gather) + seconds(phase_pack), seconds, error)
        call forget_waiting(work, seconds)
        call close_file(method, work, start, seconds, error)
    end subroutine timed_read

    !> The last phase. After a failure the file stays open: a library that could not write tries
    !> again in its close, and hangs or crashes.
    subroutine close_file(method, work, start, seconds, error)
        class(backend), intent(inout) :: method
        type(job), intent(inout) :: work
        real(real64), intent(in) :: start
        real(real64), intent(inout) :: seconds(phases)
        type(failure), intent(inout) :: error

        if (error%failed()) return
        call work%dog%watch('close')
        seconds(phase_close) = -now()
        if (work%sharers%opens) call method%close(error)
        seconds(phase_total) = now() - start
        call finish(work, phase_close, 0.0_real64, seconds, error)
    end subroutine close_file

    !> A phase ends: its seconds, less those that others have, and the agreement on it.
    subroutine finish(work, phase, others, seconds, error)
        type(job), intent(in) :: work
        integer, intent(in) :: phase
        real(real64), intent(in) :: others
        real(real64), intent(inout) :: seconds(phases)  !! minus the clock when the phase began
        type(failure), intent(inout) :: error

        seconds(phase) = max(0.0_real64, seconds(phase) + now() - others)
        if (error%failed()) call work%dog%watch_failed(error)
        call agree(error, work%together)
        call work%dog%rest()
    end subroutine finish

    !> While rank 0 gathers and writes in turn, the others only wait for it.
    subroutine forget_waiting(work, seconds)
        type(job), intent(in) :: work
        real(real64), intent(inout) :: seconds(phases)

        if (.not. work%sharers%opens) seconds(phase_gather) = 0
    end subroutine forget_waiting

    !> Rank 0's gather seconds are apart from its write seconds.
    subroutine gather_and_write(method, work, field, seconds, error)
        class(backend), intent(inout) :: method
        type(job), intent(in) :: work
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        real(real64), intent(out) :: seconds
        type(failure), intent(inout) :: error

        real(real64), allocatable, target :: buffer(:)
        real(real64), pointer, contiguous :: box(:, :, :)
        type(decomposition) :: slab
        type(slabs) :: cut
        integer(int64) :: number
        real(real64) :: start

        call prepare_slabs(work, cut, slab, buffer)
        start = now()
        seconds = 0
        do number = 1, cut%number_of()
            call cut%bounds(number, slab%lower, slab%extent)
            box(1:slab%extent(1), 1:slab%extent(2), 1:slab%extent(3)) => buffer
            seconds = seconds - now()
            call gather_slab(field, work%block, slab, box, work%sharers%ranks)
            seconds = seconds + now()
            ! After a failure the others still send what they have.
            if (work%sharers%opens .and. .not. error%failed()) then
                call method%select(slab, error)
                if (.not. error%failed()) call method%write(box, error)
            end if
        end do
        if (.not. work%sharers%opens) seconds = now() - start
    end subroutine gather_and_write

    subroutine read_and_scatter(method, work, field, seconds, error)
        class(backend), intent(inout) :: method
        type(job), intent(in) :: work
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        real(real64), intent(out) :: seconds
        type(failure), intent(inout) :: error

        real(real64), allocatable, target :: buffer(:)
        real(real64), pointer, contiguous :: box(:, :, :)
        type(decomposition) :: slab
        type(slabs) :: cut
        integer(int64) :: number
        real(real64) :: start

        call prepare_slabs(work, cut, slab, buffer)
        start = now()
        seconds = 0
        do number = 1, cut%number_of()
            call cut%bounds(number, slab%lower, slab%extent)
            box(1:slab%extent(1), 1:slab%extent(2), 1:slab%extent(3)) => buffer
            if (work%sharers%opens .and. .not. error%failed()) then
                call method%select(slab, error)
                if (.not. error%failed()) call method%read(box, error)
            end if
            seconds = seconds - now()
            call scatter_slab(box, slab, field, work%block, work%sharers%ranks)
            seconds = seconds + now()
        end do
        if (.not. work%sharers%opens) seconds = now() - start
    end subroutine read_and_scatter

    subroutine prepare_slabs(work, cut, slab, buffer)
        type(job), intent(in) :: work
        type(slabs), intent(out) :: cut
        type(decomposition), intent(out) :: slab
        real(real64), allocatable, intent(out) :: buffer(:)

        cut = new_slabs(work%block%global, gather_bytes)
        slab%global = work%block%global
        slab%grid = 1
        allocate (buffer(product(cut%slab)))
    end subroutine prepare_slabs

    !> Collective: on rank 0 the times of all ranks in brief, and the rates they give.
    subroutine reduce_times(seconds, bytes, instance, instances, comm, record)
        real(real64), intent(in) :: seconds(phases)     !! of this rank
        integer(int64), intent(in) :: bytes             !! of this rank
        integer, intent(in) :: instance                 !! whose file it was, from 0
        integer, intent(in) :: instances
        type(MPI_Comm), intent(in) :: comm              !! all ranks
        type(repetition), intent(inout) :: record

        integer, parameter :: column_mib = phases + 1, column_instance = phases + 2, &
            columns = phases + 2
        real(real64), allocatable :: of_rank(:, :)
        real(real64) :: mine(columns), mib
        integer :: i, rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        allocate (of_rank(columns, merge(ranks, 0, rank == 0)))
        mine(:phases) = seconds
        mine(column_mib) = real(bytes, real64)/2_int64**20
        mine(column_instance) = instance
        call MPI_Gather(mine, columns, MPI_REAL8, of_rank, columns, MPI_REAL8, 0, comm)
        if (rank /= 0) return

        do i = 1, phases
            record%times(i)%min = minval(of_rank(i, :))
            record%times(i)%mean = sum(of_rank(i, :))/ranks
            record%times(i)%max = maxval(of_rank(i, :))
            record%times(i)%slowest_rank = maxloc(of_rank(i, :), dim=1) - 1
        end do
        mib = sum(of_rank(column_mib, :))
        record%rates(rate_data) = mib/maxval(sum(of_rank(phase_gather:phase_read, :), dim=1))
        record%rates(rate_stable) = mib/maxval(sum(of_rank(phase_gather:phase_sync, :), dim=1))
        record%rates(rate_total) = mib/record%times(phase_total)%max

        allocate (record%of_instance(instances))
        do i = 1, instances
            record%of_instance(i) = sum(of_rank(column_mib, :), &
                mask=nint(of_rank(column_instance, :)) == i - 1) &
                /maxval(of_rank(phase_total, :), mask=nint(of_rank(column_instance, :)) == i - 1)
        end do
    end subroutine reduce_times

end module benchio_measurement
