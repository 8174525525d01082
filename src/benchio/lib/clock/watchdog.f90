!> Ends a hang, and a run whose time is over.
!>
!> An I/O error on one rank can leave the others in a collective call for ever, so every rank
!> watches itself, in a thread. At the limit each removes the files it has made, for the
!> launcher kills the others as soon as one has ended. A rank that met an error then ends first,
!> with the error and its exit code. It may also hold what the others wait for, as ROMIO's lock of a
!> file: after some seconds it tells rank 0, which reports the error and ends the run. Where no rank
!> met any, they end for the time limit, rank 0 first. Each removes the directories of the run,
!> which succeeds once they are empty. Rank 0, and one that has failed to write, also say what small
!> writes meet beside the file and in each of its stripes: a library that waits for ever may have
!> met a full target, or a server that is gone.
!>
!> A run also has a bound: its time limit, or a signal as SIGTERM. Ranks that find it over agree on
!> that at the end of a phase, and leave the round. A phase that does not end within a grace period
!> is cut off as a hang is; then rank 0 reports the rounds that are complete.
!>
!> So it does when a library ends a process, by a crash, exit or MPI_Abort: that rank tells rank 0.
!> Once the result is written nothing may cost it. A process that then comes to no end, or to
!> another one, ends with the status of its run.
module benchio_watchdog
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, &
        c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_Get_processor_name, MPI_MAX_PROCESSOR_NAME
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, failure
    use benchio_file_layout, only: layout_keeper
    use benchio_posix, only: fortran_text, now, text_of
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: bound_run, catch_ends, has_ended, know_layouts, new_watchdog, report_by
    public :: start_watchdog, stopped_seconds, unbound_run

    !> A process has one alarm, so only one watchdog may watch at a time.
    type, public :: watchdog
        private
        integer :: limit = 0                    !! seconds a phase may take
        integer :: rank = 0                     !! of all ranks
        character(:), allocatable :: path       !! of the file this rank removes; empty: none
        character(:), allocatable :: place      !! the directory of the files
        character(:), allocatable :: phase      !! that is under way
        character(:), allocatable :: backend    !! that moves the file; empty: none
        logical :: writes = .false.             !! a file, which has stripes
        real(real64) :: started = 0             !! the clock when the phase began
    contains
        procedure :: watch
        procedure :: watch_failed
        procedure :: note_end
        procedure :: diagnose
        procedure :: disarm
    end type watchdog

    !> Who knows in which stripes a file has its bytes.
    class(layout_keeper), allocatable :: known

    !> Why a rank ends, as benchio_ends.h has it.
    type, bind(C), public :: end_notice
        integer(c_int32_t) :: status = 0
        integer(c_int32_t) :: rank = 0
        character(kind=c_char) :: host(256) = c_null_char
        character(kind=c_char) :: call(64) = c_null_char
        character(kind=c_char) :: path(4096) = c_null_char
        character(kind=c_char) :: message(512) = c_null_char
    end type end_notice

    !> Seconds from the limit to the end: of a rank that knows why, of rank 0, and of the others.
    !> One line is enough, so the first has ended all before the next is due.
    integer, parameter :: delay_failed = 1, delay_first = 3, delay_others = 6

    !> Seconds for which a rank that met an error waits for the others before it tells rank 0.
    integer, parameter :: patience = 10

    interface
        !> Notes from now on signals that are to end a run, and who ends this process.
        subroutine catch_ends(has_watchdog) bind(C, name='benchio_catch_ends')
            import :: c_int32_t
            integer(c_int32_t), value :: has_watchdog   !! 0: not yet
        end subroutine catch_ends

        integer(c_int32_t) function c_start(rank, host) bind(C, name='benchio_start_watchdog')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: rank
            character(kind=c_char), intent(in) :: host(*)
        end function c_start

        subroutine c_listen(place, size) bind(C, name='benchio_listen')
            import :: c_char, c_int32_t
            character(kind=c_char), intent(out) :: place(*)
            integer(c_int32_t), value :: size
        end subroutine c_listen

        subroutine c_know_listener(place) bind(C, name='benchio_know_listener')
            import :: c_char
            character(kind=c_char), intent(in) :: place(*)
        end subroutine c_know_listener

        !> From now on the report, if any, is called in a thread of its own when a run is cut off.
        subroutine report_by(report) bind(C, name='benchio_report_by')
            import :: c_funptr
            type(c_funptr), value :: report
        end subroutine report_by

        !> Bounds the rounds that begin now; 0 s: only signals end them.
        subroutine bound_run(seconds) bind(C, name='benchio_bound')
            import :: c_int32_t
            integer(c_int32_t), value :: seconds
        end subroutine bound_run

        !> Says that the result is written, or that there is none: this process only has to end.
        subroutine has_ended(status) bind(C, name='benchio_has_ended')
            import :: c_int32_t
            integer(c_int32_t), value :: status
        end subroutine has_ended

        !> Returns the seconds, until now, in which this process was stopped.
        real(c_double) function stopped_seconds() bind(C, name='benchio_stopped_seconds')
            import :: c_double
        end function stopped_seconds

        subroutine unbound_run() bind(C, name='benchio_unbound')
        end subroutine unbound_run

        integer(c_int32_t) function c_end_due(is_between_rounds, name, size) &
            bind(C, name='benchio_end_due')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: is_between_rounds, size
            character(kind=c_char), intent(out) :: name(*)
        end function c_end_due

        subroutine c_guard(files, companions, probe, directories, written, bytes) &
            bind(C, name='benchio_guard')
            import :: c_char, c_int64_t
            character(kind=c_char), intent(in) :: files(*), companions(*), probe(*), &
                directories(*), written(*)
            integer(c_int64_t), value :: bytes
        end subroutine c_guard

        subroutine c_diagnose(message, text, size) bind(C, name='benchio_diagnose')
            import :: c_char, c_int32_t
            character(kind=c_char), intent(in) :: message(*)
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int32_t), value :: size
        end subroutine c_diagnose

        subroutine c_watch(seconds, delay, phase, place, backend, probes) &
            bind(C, name='benchio_watch')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: seconds, delay, probes
            character(kind=c_char), intent(in) :: phase(*), place(*), backend(*)
        end subroutine c_watch

        subroutine c_watch_failed(seconds, delay, line, met, probes, may_be_cut, tells) &
            bind(C, name='benchio_watch_failed')
            import :: c_char, c_int32_t, end_notice
            integer(c_int32_t), value :: seconds, delay, probes, may_be_cut, tells
            character(kind=c_char), intent(in) :: line(*)
            type(end_notice), intent(in) :: met
        end subroutine c_watch_failed

        subroutine c_rest() bind(C, name='benchio_rest')
        end subroutine c_rest
    end interface

contains

    !> Starts the thread that watches this process; exit_internal if that cannot be. Collective.
    subroutine start_watchdog(comm, error)
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        type(failure), intent(inout) :: error

        integer, parameter :: place_size = 64       ! of where rank 0 listens, in characters
        character(kind=c_char) :: place(place_size)
        character(MPI_MAX_PROCESSOR_NAME) :: host
        integer :: length, rank
        integer(c_int32_t) :: code

        call MPI_Comm_rank(comm, rank)
        call MPI_Get_processor_name(host, length)
        if (rank == 0) call c_listen(place, int(place_size, c_int32_t))
        call MPI_Bcast(place, place_size, MPI_CHARACTER, 0, comm)
        call c_know_listener(place)
        code = c_start(int(rank, c_int32_t), host(:length)//c_null_char)
        if (code /= 0) call error%set(exit_internal, 'pthread_create', '', text_of(int(code)) &
            //': no thread could end a hang of this run')
    end subroutine start_watchdog

    !> From now on this says in which stripes files have their bytes.
    subroutine know_layouts(keeper)
        class(layout_keeper), intent(in) :: keeper

        if (allocated(known)) deallocate (known)
        allocate (known, source=keeper)
    end subroutine know_layouts

    !> Finds a place in each stripe of a file, and its OST; returns how many, 0 where nobody knows.
    !> For the clock's thread too, when this rank hangs.
    integer(c_int32_t) function stripe_places(length, path, bytes, most, offsets, osts) &
        bind(C, name='benchio_stripe_places') result(count)
        integer(c_int32_t), value :: length         !! of the path
        character(kind=c_char), intent(in) :: path(length)
        integer(c_int64_t), value :: bytes          !! of the whole file
        integer(c_int32_t), value :: most
        integer(c_int64_t), intent(out) :: offsets(most)
        integer(c_int32_t), intent(out) :: osts(most)

        integer(int64), allocatable :: numbers(:), places(:)

        count = 0
        if (.not. allocated(known) .or. length == 0) return
        call known%stripe_places(fortran_text(path), bytes, places, numbers)
        count = int(min(size(places), int(most)), c_int32_t)
        offsets(:count) = places(:count)
        osts(:count) = int(numbers(:count), c_int32_t)
    end function stripe_places

    !> Makes a watchdog that knows what an end of this process would leave. None may be watching.
    function new_watchdog(limit, rank, path, place, directories, companions, written, bytes, &
        earlier, backend) result(new)
        integer, intent(in) :: limit            !! seconds a phase may take
        integer, intent(in) :: rank             !! of all ranks
        character(*), intent(in) :: path        !! of the file this rank makes; empty: none
        character(*), intent(in) :: place       !! the directory of the files, to be named
        character(*), intent(in) :: directories !! all to be removed, each ended by NUL
        !> Follows the path in the names of more files, which go with it; empty: none.
        character(*), intent(in), optional :: companions
        character(*), intent(in), optional :: written   !! the file that this rank writes
        integer(int64), intent(in), optional :: bytes   !! that it is to have
        character(*), intent(in), optional :: earlier   !! more of its files, each ended by NUL
        character(*), intent(in), optional :: backend   !! that moves the file
        type(watchdog) :: new

        character(:), allocatable :: files, mark, target
        integer(int64) :: length

        new%limit = limit
        new%rank = rank
        new%path = path
        new%place = place
        new%phase = ''
        new%backend = ''
        if (present(backend)) new%backend = backend
        mark = ''
        if (present(companions)) mark = companions
        target = ''
        if (present(written)) target = written
        length = 0
        if (present(bytes)) length = bytes
        files = ''
        if (path /= '') files = path//c_null_char
        if (present(earlier)) files = files//earlier
        new%writes = target /= ''
        call c_guard(files//c_null_char, mark//c_null_char, place//'/probe.'//decimal(rank) &
            //c_null_char, directories//c_null_char, target//c_null_char, length)
    end function new_watchdog

    !> Starts the limit of a phase.
    subroutine watch(self, phase)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: phase

        character(:), allocatable :: place

        self%started = now()
        self%phase = phase
        place = self%path
        if (place == '') place = self%place
        call c_watch(int(self%limit, c_int32_t), int(merge(delay_first, delay_others, &
            self%rank == 0), c_int32_t), phase//c_null_char, place//c_null_char, &
            self%backend//c_null_char, merge(1_c_int32_t, 0_c_int32_t, self%rank == 0))
    end subroutine watch

    !> Watches a rank that has failed. It waits for the others with some patience; once all know of
    !> it, it clears up, and no bound of the run cuts that off.
    subroutine watch_failed(self, error, is_agreed)
        class(watchdog), intent(in) :: self
        type(failure), intent(in) :: error
        logical, intent(in) :: is_agreed

        type(end_notice) :: met
        integer :: left
        logical :: probes, tells

        left = max(1, self%limit - int(now() - self%started))
        tells = .not. is_agreed .and. left > patience
        if (tells) left = patience
        probes = self%writes .and. error%status == exit_io .and. error%rank == self%rank
        met%status = int(error%status, c_int32_t)
        met%rank = int(error%rank, c_int32_t)
        call to_c(error%host, met%host)
        call to_c(error%call, met%call)
        call to_c(error%path, met%path)
        call to_c(error%message, met%message)
        call c_watch_failed(int(left, c_int32_t), int(merge(delay_others, delay_failed, tells), &
            c_int32_t), error%line()//c_null_char, met, merge(1_c_int32_t, 0_c_int32_t, probes), &
            merge(0_c_int32_t, 1_c_int32_t, is_agreed), merge(1_c_int32_t, 0_c_int32_t, tells))

    contains

        !> Copies a text, as much of it as there is room for before a NUL.
        subroutine to_c(text, array)
            character(*), intent(in) :: text
            character(kind=c_char), intent(inout) :: array(:)

            integer :: i

            do i = 1, min(len(text), size(array) - 1)
                array(i) = text(i:i)
            end do
        end subroutine to_c

    end subroutine watch_failed

    !> Notes as a failure, whose message is the phase, that the run has to end. Between two rounds a
    !> warning ends it too, and the message is empty.
    subroutine note_end(self, error, is_between_rounds)
        class(watchdog), intent(in) :: self
        type(failure), intent(inout) :: error
        logical, intent(in), optional :: is_between_rounds

        character(kind=c_char) :: name(32)
        integer(c_int32_t) :: between

        between = 0
        if (present(is_between_rounds)) between = merge(1, 0, is_between_rounds)
        if (c_end_due(between, name, size(name, kind=c_int32_t)) == 0) return
        call error%set(exit_time_limit, fortran_text(name), self%place, &
            self%phase(:merge(0, len(self%phase), between == 1)))
    end subroutine note_end

    !> Adds to the error of a write what small writes meet: MPI-IO, and the libraries above it, know
    !> an I/O error but not which, and nobody knows of which OST. Should that hang, the watchdog
    !> still says the failure.
    subroutine diagnose(self, error)
        class(watchdog), intent(in) :: self
        type(failure), intent(inout) :: error

        character(kind=c_char) :: text(1024)

        call self%watch_failed(error, is_agreed=.true.)
        call c_diagnose(error%message//c_null_char, text, int(size(text), c_int32_t))
        error%message = error%message//fortran_text(text)
    end subroutine diagnose

    !> Stops all limits: nothing is under way that could hang.
    subroutine disarm(self)
        class(watchdog), intent(in) :: self

        call c_rest()
    end subroutine disarm

end module benchio_watchdog
