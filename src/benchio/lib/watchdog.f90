!> Ends a hang: an I/O error on one rank can leave the others in a collective call for ever.
!>
!> Every rank watches itself. A rank that met an error ends first, with the error and its exit
!> code; the launcher then ends the rest. Where no rank met any, they end for the time limit, rank 0
!> first.
module benchio_watchdog
    use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: real64
    use benchio_clock, only: now
    use benchio_failure, only: exit_time_limit, failure
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    !> One per file, as only one phase runs at a time.
    type, public :: watchdog
        integer :: limit = 0                    !! seconds a phase may take
        real(real64) :: started = 0             !! the clock when the phase began
        integer :: rank = 0
        character(:), allocatable :: path       !! of this rank's file; all files are removed
        integer :: files = 1
        integer :: numbered = 0                 !! characters of path before a file's number
    contains
        procedure :: watch
        procedure :: watch_failed
        procedure :: rest
    end type watchdog

    !> Head start, in seconds, of a rank that knows why.
    integer, parameter :: grace = 3

    interface
        subroutine c_watch(seconds, path, files, numbered, message, status) &
            bind(C, name='benchio_watch')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: seconds, files, numbered, status
            character(kind=c_char), intent(in) :: path(*), message(*)
        end subroutine c_watch
    end interface

contains

    !> A phase begins.
    subroutine watch(self, phase)
        class(watchdog), intent(inout) :: self
        character(*), intent(in) :: phase

        integer :: seconds

        self%started = now()
        seconds = self%limit + grace
        if (self%rank > 0) seconds = seconds + grace    ! one line is enough
        call arm(self, seconds, 'rank '//decimal(self%rank)//': '//phase//': '//self%path &
            //': no end after '//decimal(self%limit)//' s (--phase-limit)', exit_time_limit)
    end subroutine watch

    !> This rank failed in its phase and now waits for the others.
    subroutine watch_failed(self, error)
        class(watchdog), intent(in) :: self
        type(failure), intent(in) :: error

        integer :: left

        left = self%limit - int(now() - self%started)
        call arm(self, max(1, left), error%line(), error%status)
    end subroutine watch_failed

    !> The ranks have met.
    subroutine rest(self)
        class(watchdog), intent(in) :: self

        call arm(self, 0, '', 0)
    end subroutine rest

    subroutine arm(self, seconds, line, status)
        class(watchdog), intent(in) :: self
        integer, intent(in) :: seconds, status
        character(*), intent(in) :: line

        call c_watch(int(seconds, c_int32_t), self%path//c_null_char, int(self%files, c_int32_t), &
            int(self%numbered, c_int32_t), 'benchio: error: '//line//new_line('a')//c_null_char, &
            int(status, c_int32_t))
    end subroutine arm

end module benchio_watchdog
