!> Ends a hang: an I/O error on one rank can leave the others in a collective call for ever.
!>
!> Every rank watches itself. At the limit each removes the file it has made, for the launcher kills
!> the others as soon as one has ended. A rank that met an error then ends first, with the error and
!> its exit code; where no rank met any, they end for the time limit, rank 0 first. Each removes the
!> run's directory, which succeeds once it is empty.
module benchio_watchdog
    use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: real64
    use benchio_clock, only: now
    use benchio_failure, only: exit_time_limit, failure
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: new_watchdog

    !> A process has one alarm, so only one watchdog may watch at a time.
    type, public :: watchdog
        private
        integer :: limit = 0                    !! seconds a phase may take
        integer :: rank = 0                     !! of all ranks
        character(:), allocatable :: path       !! of the file this rank removes; empty: none
        character(:), allocatable :: run_path   !! the run's directory
        real(real64) :: started = 0             !! the clock when the phase began
    contains
        procedure :: guard
        procedure :: watch
        procedure :: watch_failed
        procedure :: rest
    end type watchdog

    !> Seconds from the limit to the end: of a rank that knows why, of rank 0, and of the others.
    !> One line is enough, so the first has ended all before the next is due.
    integer, parameter :: delay_failed = 1, delay_first = 3, delay_others = 6

    interface
        subroutine c_watch(seconds, delay, file, directory, message, status) &
            bind(C, name='benchio_watch')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: seconds, delay, status
            character(kind=c_char), intent(in) :: file(*), directory(*), message(*)
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
        new%run_path = ''
    end function new_watchdog

    !> From now on these are what a hang leaves.
    subroutine guard(self, path, run_path)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: path        !! of the file this rank makes; empty: none
        character(*), intent(in) :: run_path    !! the run's directory

        self%path = path
        self%run_path = run_path
    end subroutine guard

    !> A phase begins.
    subroutine watch(self, phase)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: phase

        character(:), allocatable :: place

        self%started = now()
        place = self%path
        if (place == '') place = self%run_path
        call arm(self, self%limit, merge(delay_first, delay_others, self%rank == 0), &
            'rank '//decimal(self%rank)//': '//phase//': '//place//': no end after ' &
            //decimal(self%limit)//' s (--phase-limit)', exit_time_limit)
    end subroutine watch

    !> This rank failed in its phase and now waits for the others, as long as the phase may take.
    subroutine watch_failed(self, error)
        class(watchdog), intent(in) :: self
        type(failure), intent(in) :: error

        integer :: left

        left = self%limit - int(now() - self%started)
        call arm(self, max(1, left), delay_failed, error%line(), error%status)
    end subroutine watch_failed

    !> The ranks have met.
    subroutine rest(self)
        class(watchdog), intent(in) :: self

        call arm(self, 0, 0, '', 0)
    end subroutine rest

    subroutine arm(self, seconds, delay, line, status)
        class(watchdog), intent(in) :: self
        integer, intent(in) :: seconds, delay, status
        character(*), intent(in) :: line

        call c_watch(int(seconds, c_int32_t), int(delay, c_int32_t), self%path//c_null_char, &
            self%run_path//c_null_char, 'benchio: error: '//line//new_line('a')//c_null_char, &
            int(status, c_int32_t))
    end subroutine arm

end module benchio_watchdog
