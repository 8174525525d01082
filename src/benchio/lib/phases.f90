!> One write or read of one file by one backend, phase by phase, under the clock.
!>
!> All ranks leave a barrier together and take its end as their time 0; each then notes when it
!> begins and ends a phase. A phase's window, over all ranks of one file or of all, runs from the
!> first rank that begins it to the last that ends it: a rank that is late cannot make the others
!> look fast. After each phase the ranks that share a file agree that it succeeded on all of them,
!> so they enter the next one together. That agreement is inside total and in no phase.
module benchio_phases
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_CHARACTER, MPI_Comm, &
        MPI_Comm_rank, MPI_COMM_WORLD, MPI_Comm_size, MPI_DOUBLE_PRECISION, MPI_Gather, &
        MPI_INTEGER, MPI_MIN
    use benchio_backend, only: backend, open_file, remarks
    use benchio_clock, only: now
    use benchio_failure, only: agree, exit_io, failure
    use benchio_file_parts, only: file_parts
    use benchio_gather, only: move_gathered
    use benchio_layout, only: file_share
    use benchio_posix, only: remove_file, remove_subfiled
    use benchio_settings, only: io_settings
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: diagnose, gather_times, meet, remove_task_file, timed_move, timed_sync
    public :: timed_unlink

    integer, parameter, public :: phase_open = 1, phase_define = 2, phase_write = 3, &
        phase_read = 4, phase_flush = 5, phase_close = 6, phase_sync = 7, phase_unlink = 8, &
        phase_total = 9, phase_mkdir = 10, phase_create = 11, phase_stat = 12, phase_list = 13, &
        phase_rename = 14, phase_rmdir = 15, phases = 15
    character(*), parameter, public :: phase_names(phases) = [character(6) :: &
        'open', 'define', 'write', 'read', 'flush', 'close', 'sync', 'unlink', 'total', 'mkdir', &
        'create', 'stat', 'list', 'rename', 'rmdir']

    !> Parts of the write or read phase that are not the library's.
    integer, parameter, public :: part_gather = 1, part_pack = 2, parts = 2
    character(*), parameter, public :: part_names(parts) = [character(6) :: 'gather', 'pack']

    !> What one rank noted, in seconds.
    type, public :: stopwatch
        private
        real(real64) :: zero = 0                    !! the clock at the end of the barrier
        real(real64) :: begun(phases) = -1          !! after that; less than 0: took no part
        real(real64) :: ended(phases) = -1
        real(real64) :: part_seconds(parts) = 0
    contains
        procedure :: set
        procedure :: begin
        procedure :: finish
    end type stopwatch

    !> What is to be done with which file, by this rank.
    type, public :: file_task
        character(:), allocatable :: path
        type(file_parts) :: parts                   !! that the file is, once it is written
        logical :: writes = .false.                 !! it, or reads what was written
        type(file_share) :: share
        type(io_settings) :: settings
        type(watchdog) :: watchdog
        type(MPI_Comm) :: comm                      !! all ranks: they start together
        type(MPI_Comm) :: together                  !! the ranks that agree after each phase
    end type file_task

    !> Seconds of a phase over the ranks that take part in it; on rank 0.
    type, public :: phase_time
        logical :: occurs = .false.
        real(real64) :: min = 0, mean = 0, max = 0
        integer :: slowest_rank = 0
        real(real64) :: window = 0                  !! over all files
        real(real64) :: file_window = 0             !! of the file that took longest
        integer(int64) :: operations = 0            !! on names, of all ranks; 0: it is of data
    end type phase_time

    integer, parameter, public :: rate_data = 1, rate_total = 2, rate_stable = 3, rates = 3
    character(*), parameter, public :: rate_names(rates) = [character(6) :: &
        'data', 'total', 'stable']

    !> One write or read of all files; on rank 0.
    type, public :: timing
        type(phase_time) :: of_phase(phases)
        type(phase_time) :: of_part(parts)              !! without windows
        real(real64) :: mib = 0                         !! of array data, in all files
        real(real64), allocatable :: instance_mib(:)    !! of each instance
        real(real64), allocatable :: instance_window(:) !! of each, seconds from open to close
    contains
        procedure :: has_rate
        procedure :: rate => rate_of
    end type timing

contains

    !> The common start of what follows.
    subroutine set(self, comm)
        class(stopwatch), intent(inout) :: self
        type(MPI_Comm), intent(in) :: comm

        call MPI_Barrier(comm)
        self%zero = now()
    end subroutine set

    subroutine begin(self, phase, task)
        class(stopwatch), intent(inout) :: self
        integer, intent(in) :: phase
        type(file_task), intent(inout) :: task

        call task%watchdog%watch(trim(phase_names(phase)))
        self%begun(phase) = now() - self%zero
    end subroutine begin

    !> Collective: a phase ends, and the ranks that share the file agree on it.
    subroutine finish(self, phase, takes_part, task, comm, error)
        class(stopwatch), intent(inout) :: self
        integer, intent(in) :: phase
        logical, intent(in) :: takes_part           !! else this rank only waits
        type(file_task), intent(inout) :: task
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        self%ended(phase) = now() - self%zero
        if (.not. takes_part) self%begun(phase) = -1
        call meet(task%watchdog, comm, error)
    end subroutine finish

    !> Collective: where all ranks know that one has failed to write, that one looks at what small
    !> writes meet. If they cannot agree, for others hang, its watchdog does so at the limit.
    subroutine diagnose(task, error)
        type(file_task), intent(inout) :: task
        type(failure), intent(inout) :: error

        integer, parameter :: text_size = 4096
        character(text_size) :: text
        integer :: rank, rank_of_all, root

        if (.not. task%writes .or. error%status /= exit_io) return
        call MPI_Comm_rank(MPI_COMM_WORLD, rank_of_all)
        if (error%rank == rank_of_all) call task%watchdog%diagnose(error)
        call MPI_Comm_rank(task%comm, rank)
        call MPI_Allreduce(merge(rank, huge(rank), error%rank == rank_of_all), root, 1, &
            MPI_INTEGER, MPI_MIN, task%comm)
        text = error%message
        call MPI_Bcast(text, text_size, MPI_CHARACTER, root, task%comm)
        error%message = trim(text)
    end subroutine diagnose

    !> Collective: the ranks agree. Until then a rank may wait for one that hangs, and so it may
    !> after that, before the next phase.
    subroutine meet(guard, comm, error)
        type(watchdog), intent(inout) :: guard
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        if (error%failed()) call guard%watch_failed(error)
        call agree(error, comm)
        call guard%watch('between two phases')
        if (error%failed()) call guard%watch_failed(error)
    end subroutine meet

    !> Collective: writes this rank's block, or reads it through new handles.
    subroutine timed_move(method, task, writes, field, times, from_library, error)
        class(backend), intent(in) :: method
        type(file_task), intent(inout) :: task
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(stopwatch), intent(out) :: times
        type(remarks), intent(out) :: from_library      !! on success
        type(failure), intent(inout) :: error

        class(open_file), allocatable :: file
        integer :: phase

        call method%new_file(file)
        associate (share => task%share)
            call times%set(task%comm)
            call times%begin(phase_open, task)
            if (share%opens) call file%open(task%path, share%block, share%io, &
                task%settings, writes, error)
            call times%finish(phase_open, share%opens, task, task%together, error)
            if (error%failed()) return

            if (writes) then
                call times%begin(phase_define, task)
                if (share%opens) then
                    call file%define(error)
                    if (.not. share%is_gathered) call file%select(share%block, error)
                end if
                call times%finish(phase_define, share%opens, task, task%together, error)
                if (error%failed()) return
            end if

            phase = merge(phase_write, phase_read, writes)
            call times%begin(phase, task)
            if (.not. (writes .or. share%is_gathered)) call file%select(share%block, error)
            if (share%is_gathered) then
                call move_gathered(file, writes, field, share%block, share%ranks, &
                    times%part_seconds(part_gather), error)
            else
                call file%move(writes, field, error)
            end if
            ! While the first rank gathers and writes in turn, the others only wait for it.
            if (share%opens) times%part_seconds(part_pack) = file%pack_seconds
            call times%finish(phase, share%opens, task, task%together, error)
            if (error%failed()) return

            if (writes .and. task%settings%flush) then
                call times%begin(phase_flush, task)
                if (share%opens) call file%flush(error)
                call times%finish(phase_flush, share%opens, task, task%together, error)
            end if
        end associate
        call close_file(file, task, times, error)
        if (.not. error%failed()) call file%collect_remarks(from_library)
    end subroutine timed_move

    !> The last phase. After a failure the file stays open: a library that could not write tries
    !> again in its close, and hangs or crashes.
    subroutine close_file(file, task, times, error)
        class(open_file), intent(inout) :: file
        type(file_task), intent(inout) :: task
        type(stopwatch), intent(inout) :: times
        type(failure), intent(inout) :: error

        if (error%failed()) return
        call times%begin(phase_close, task)
        if (task%share%opens) call file%close(error)
        call times%finish(phase_close, task%share%opens, task, task%together, error)
        times%begun(phase_total) = times%begun(phase_open)
        times%ended(phase_total) = times%ended(phase_close)
    end subroutine close_file

    !> Collective: one rank of every node that has written forces to stable storage what the node
    !> still holds, through a descriptor of its own that is opened before the clock starts.
    subroutine timed_sync(task, times, error)
        type(file_task), intent(inout) :: task
        type(stopwatch), intent(inout) :: times
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        logical :: syncs

        syncs = task%share%is_node_leader .and. .not. task%share%is_gathered
        if (task%share%is_gathered) syncs = task%share%opens    ! only its node has written
        call task%watchdog%watch('open to sync')
        if (syncs) then
            call task%parts%open(message, writes=.true.)
            if (message /= '') call error%set(exit_io, 'open', task%parts%path, message)
        end if
        call times%set(task%comm)
        call times%begin(phase_sync, task)
        if (syncs .and. .not. error%failed()) then
            call task%parts%sync(message)
            if (message /= '') call error%set(exit_io, 'fsync', task%parts%path, message)
        end if
        call times%finish(phase_sync, syncs, task, task%comm, error)
        if (syncs) call task%parts%close()
    end subroutine timed_sync

    !> Collective: the first rank of each file removes it.
    subroutine timed_unlink(task, times, error)
        type(file_task), intent(inout) :: task
        type(stopwatch), intent(inout) :: times
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        logical :: unlinks

        unlinks = task%share%position == 0
        call times%set(task%comm)
        call times%begin(phase_unlink, task)
        if (unlinks) then
            call remove_task_file(task, message)
            if (message /= '') call error%set(exit_io, 'unlink', task%path, message)
        end if
        call times%finish(phase_unlink, unlinks, task, task%comm, error)
    end subroutine timed_unlink

    !> Removes a file, with its subfiles; those that were begun as well.
    subroutine remove_task_file(task, message)
        type(file_task), intent(in) :: task
        character(:), allocatable, intent(out) :: message

        if (task%settings%access%subfiles > 0) then
            call remove_subfiled(task%path, message)
        else
            call remove_file(task%path, message)
        end if
    end subroutine remove_task_file

    !> Collective: on rank 0 the times of all ranks in brief.
    subroutine gather_times(times, share, comm, all)
        type(stopwatch), intent(in) :: times            !! of this rank
        type(file_share), intent(in) :: share           !! what it timed
        type(MPI_Comm), intent(in) :: comm              !! all ranks
        type(timing), intent(out) :: all

        integer, parameter :: column_end = phases, column_part = 2*phases, &
            column_file = 2*phases + parts + 1, column_instance = column_file + 1, &
            column_mib = column_file + 2, columns = column_file + 2
        real(real64), allocatable :: of_rank(:, :)      ! (rank, column)
        real(real64), allocatable :: rows(:, :)
        real(real64) :: mine(columns)
        integer, allocatable :: file(:), instance(:)
        integer :: i, rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        mine = [times%begun, times%ended, times%part_seconds, real(share%file, real64), &
            real(share%instance, real64), real(share%block%bytes(), real64)/2_int64**20]
        allocate (rows(columns, merge(ranks, 0, rank == 0)))
        call MPI_Gather(mine, columns, MPI_DOUBLE_PRECISION, rows, columns, MPI_DOUBLE_PRECISION, &
            0, comm)
        if (rank /= 0) return

        of_rank = transpose(rows)
        file = nint(of_rank(:, column_file))
        instance = nint(of_rank(:, column_instance))
        do i = 1, phases
            associate (begun => of_rank(:, i), ended => of_rank(:, column_end + i))
                all%of_phase(i) = over_ranks(ended - begun, begun >= 0)
                if (.not. all%of_phase(i)%occurs) cycle
                all%of_phase(i)%window = maxval(ended, begun >= 0) - minval(begun, begun >= 0)
                all%of_phase(i)%file_window = maxval(windows(begun, ended, file))
            end associate
        end do
        do i = 1, parts
            associate (seconds => of_rank(:, column_part + i))
                all%of_part(i) = over_ranks(seconds, seconds > 0)
            end associate
        end do
        all%mib = sum(of_rank(:, column_mib))
        all%instance_window = windows(of_rank(:, phase_total), &
            of_rank(:, column_end + phase_total), instance)
        allocate (all%instance_mib(size(all%instance_window)), source=0.0_real64)
        do i = 1, ranks
            associate (sum_of => all%instance_mib(instance(i) + 1))
                sum_of = sum_of + of_rank(i, column_mib)
            end associate
        end do
    end subroutine gather_times

    !> Seconds of the ranks that took part.
    pure function over_ranks(seconds, took_part) result(brief)
        real(real64), intent(in) :: seconds(:)
        logical, intent(in) :: took_part(:)
        type(phase_time) :: brief

        brief%occurs = any(took_part)
        if (.not. brief%occurs) return
        brief%min = minval(seconds, took_part)
        brief%mean = sum(seconds, took_part)/count(took_part)
        brief%max = maxval(seconds, took_part)
        brief%slowest_rank = maxloc(seconds, 1, took_part) - 1
    end function over_ranks

    !> Of each group of ranks the seconds from the first that begins to the last that ends.
    pure function windows(begun, ended, group) result(window)
        real(real64), intent(in) :: begun(:), ended(:)
        integer, intent(in) :: group(:)                 !! of each rank, from 0
        real(real64), allocatable :: window(:)

        real(real64) :: first(0:maxval(group)), last(0:maxval(group))
        integer :: i

        first = huge(first)
        last = -1
        do i = 1, size(group)
            if (begun(i) < 0) cycle
            first(group(i)) = min(first(group(i)), begun(i))
            last(group(i)) = max(last(group(i)), ended(i))
        end do
        window = merge(last - first, 0.0_real64, last >= 0)
    end function windows

    !> Whether a rate of bytes exists: only what was synced is stable, and names have none.
    pure logical function has_rate(self, rate)
        class(timing), intent(in) :: self
        integer, intent(in) :: rate

        has_rate = self%of_phase(phase_total)%occurs
        if (rate == rate_stable) has_rate = has_rate .and. self%of_phase(phase_sync)%occurs
    end function has_rate

    !> MiB/s over all files: data in the write or read phase, total from open to close, stable in
    !> that and the sync.
    pure real(real64) function rate_of(self, rate)
        class(timing), intent(in) :: self
        integer, intent(in) :: rate

        real(real64) :: seconds

        select case (rate)
        case (rate_data)
            seconds = self%of_phase(phase_write)%window + self%of_phase(phase_read)%window
        case (rate_stable)
            seconds = self%of_phase(phase_total)%window + self%of_phase(phase_sync)%window
        case default
            seconds = self%of_phase(phase_total)%window
        end select
        rate_of = self%mib/seconds
    end function rate_of

end module benchio_phases
