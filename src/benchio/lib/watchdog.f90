!> Ends a hang: an I/O error on one rank can leave the others in a collective call for ever.
!>
!> Every rank watches itself, in a thread. At the limit each removes the file it has made, for the
!> launcher kills the others as soon as one has ended. A rank that met an error then ends first,
!> with the error and its exit code; where no rank met any, they end for the time limit, rank 0
!> first. Each removes the directories of the run, which succeeds once they are empty. Rank 0, and
!> one that has failed to write, also say what small writes meet beside the file and in each of its
!> stripes: a library that waits for ever may have met a full target, or a server that is gone.
module benchio_watchdog
    use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_int64_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_clock, only: now
    use benchio_failure, only: exit_io, exit_time_limit, failure
    use benchio_file_layout, only: layout_keeper
    use benchio_posix, only: fortran_text
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: know_layouts, new_watchdog

    !> A process has one alarm, so only one watchdog may watch at a time.
    type, public :: watchdog
        private
        integer :: limit = 0                    !! seconds a phase may take
        integer :: rank = 0                     !! of all ranks
        character(:), allocatable :: path       !! of the file this rank removes; empty: none
        character(:), allocatable :: place      !! the directory of the files
        logical :: writes = .false.             !! a file, which has stripes
        real(real64) :: started = 0             !! the clock when the phase began
    contains
        procedure :: guard
        procedure :: watch
        procedure :: watch_failed
        procedure :: diagnose
        procedure :: disarm
    end type watchdog

    !> Who knows in which stripes a file has its bytes.
    class(layout_keeper), allocatable :: known

    !> Seconds from the limit to the end: of a rank that knows why, of rank 0, and of the others.
    !> One line is enough, so the first has ended all before the next is due.
    integer, parameter :: delay_failed = 1, delay_first = 3, delay_others = 6

    interface
        subroutine c_guard(file, companions, probe, directories, written, bytes) &
            bind(C, name='benchio_guard')
            import :: c_char, c_int64_t
            character(kind=c_char), intent(in) :: file(*), companions(*), probe(*), &
                directories(*), written(*)
            integer(c_int64_t), value :: bytes
        end subroutine c_guard

        subroutine c_diagnose(message, text, size) bind(C, name='benchio_diagnose')
            import :: c_char, c_int32_t
            character(kind=c_char), intent(in) :: message(*)
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int32_t), value :: size
        end subroutine c_diagnose

        subroutine c_watch(seconds, delay, message, probes, status) bind(C, name='benchio_watch')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: seconds, delay, probes, status
            character(kind=c_char), intent(in) :: message(*)
        end subroutine c_watch
    end interface

contains

    !> A watchdog that has no file yet.
    function new_watchdog(limit, rank) result(new)
        integer, intent(in) :: limit            !! seconds a phase may take
        integer, intent(in) :: rank             !! of all ranks
        type(watchdog) :: new

        new%limit = limit
        new%rank = rank
        new%path = ''
        new%place = ''
    end function new_watchdog

    !> From now on this says in which stripes files have their bytes.
    subroutine know_layouts(keeper)
        class(layout_keeper), intent(in) :: keeper

        if (allocated(known)) deallocate (known)
        allocate (known, source=keeper)
    end subroutine know_layouts

    !> Finds a place in each stripe of a file, and its OST; returns how many, 0 where nobody knows.
    !> For the clock's thread too, when this rank hangs.
    integer(c_int32_t) function stripe_places(path, bytes, most, offsets, osts) &
        bind(C, name='benchio_stripe_places') result(count)
        character(kind=c_char), intent(in) :: path(*)
        integer(c_int64_t), value :: bytes          !! of the whole file
        integer(c_int32_t), value :: most
        integer(c_int64_t), intent(out) :: offsets(most)
        integer(c_int32_t), intent(out) :: osts(most)

        integer(int64), allocatable :: numbers(:), places(:)
        integer :: length

        count = 0
        if (.not. allocated(known)) return
        length = 0
        do while (path(length + 1) /= c_null_char)
            length = length + 1
        end do
        if (length == 0) return
        call known%stripe_places(fortran_text(path(:length)), bytes, places, numbers)
        count = int(min(size(places), int(most)), c_int32_t)
        offsets(:count) = places(:count)
        osts(:count) = int(numbers(:count), c_int32_t)
    end function stripe_places

    !> From now on these are what a hang leaves. No watchdog may be watching.
    subroutine guard(self, path, place, directories, companions, written, bytes)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: path        !! of the file this rank makes; empty: none
        character(*), intent(in) :: place       !! the directory of the files, to be named
        character(*), intent(in) :: directories !! all to be removed, each ended by NUL
        !> Follows the path in the names of more files, which go with it; empty: none.
        character(*), intent(in), optional :: companions
        character(*), intent(in), optional :: written   !! the file that this rank writes
        integer(int64), intent(in), optional :: bytes   !! that it is to have

        character(:), allocatable :: mark, own
        integer(int64) :: length

        self%path = path
        self%place = place
        mark = ''
        if (present(companions)) mark = companions
        own = ''
        if (present(written)) own = written
        length = 0
        if (present(bytes)) length = bytes
        self%writes = own /= ''
        call c_guard(path//c_null_char, mark//c_null_char, &
            place//'/probe.'//decimal(self%rank)//c_null_char, directories//c_null_char, &
            own//c_null_char, length)
    end subroutine guard

    !> A phase begins.
    subroutine watch(self, phase)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: phase

        character(:), allocatable :: place

        self%started = now()
        place = self%path
        if (place == '') place = self%place
        call arm(self%limit, merge(delay_first, delay_others, self%rank == 0), &
            'rank '//decimal(self%rank)//': '//phase//': '//place//': no end after ' &
            //decimal(self%limit)//' s (--phase-limit)', self%rank == 0, exit_time_limit)
    end subroutine watch

    !> This rank failed in its phase and now waits for the others, as long as the phase may take.
    subroutine watch_failed(self, error)
        class(watchdog), intent(in) :: self
        type(failure), intent(in) :: error

        integer :: left

        left = self%limit - int(now() - self%started)
        call arm(max(1, left), delay_failed, error%line(), self%writes &
            .and. error%status == exit_io .and. error%rank == self%rank, error%status)
    end subroutine watch_failed

    !> Adds to the error of a write what small writes meet: MPI-IO, and the libraries above it, know
    !> an I/O error but not which, and nobody knows of which OST. Should that hang, the watchdog
    !> still says the failure.
    subroutine diagnose(self, error)
        class(watchdog), intent(in) :: self
        type(failure), intent(inout) :: error

        character(kind=c_char) :: text(1024)

        call self%watch_failed(error)
        call c_diagnose(error%message//c_null_char, text, int(size(text), c_int32_t))
        error%message = error%message//fortran_text(text)
    end subroutine diagnose

    !> The ranks have met.
    subroutine disarm(self)
        class(watchdog), intent(in) :: self

        associate (of_this_process => self)
        end associate
        call arm(0, 0, '', .false., 0)
    end subroutine disarm

    subroutine arm(seconds, delay, line, probes, status)
        integer, intent(in) :: seconds, delay, status
        character(*), intent(in) :: line
        logical, intent(in) :: probes           !! to say what small writes meet

        call c_watch(int(seconds, c_int32_t), int(delay, c_int32_t), 'benchio: error: '//line &
            //c_null_char, merge(1_c_int32_t, 0_c_int32_t, probes), int(status, c_int32_t))
    end subroutine arm

end module benchio_watchdog
