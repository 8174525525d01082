!> Ends a hang: an I/O error on one rank can leave the others in a collective call for ever.
!>
!> Every rank watches itself. A rank that met an error ends first, with the error and its exit
!> code; the launcher then ends the rest. Where no rank met any, all end for the time limit.
module benchio_watchdog
    use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_null_char
    use benchio_failure, only: exit_time_limit, failure
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    !> One per file, as only one phase runs at a time.
    type, public :: watchdog
        integer :: limit = 0                    !! seconds a phase may take
        integer :: rank = 0
        character(:), allocatable :: path       !! file to be removed
    contains
        procedure :: watch
        procedure :: watch_failed
        procedure :: rest
    end type watchdog

    !> Head start, in seconds, of a rank that knows why.
    integer, parameter :: grace = 3

    interface
        subroutine c_watch(seconds, path, message, status) bind(C, name='benchio_watch')
            import :: c_char, c_int32_t
            integer(c_int32_t), value :: seconds, status
            character(kind=c_char), intent(in) :: path(*), message(*)
        end subroutine c_watch
    end interface

contains

    !> A phase begins.
    subroutine watch(self, phase)
        class(watchdog), intent(in) :: self
        character(*), intent(in) :: phase

        character(:), allocatable :: message

        message = ''
        if (self%rank == 0) then    ! all ranks have the same to say
            message = 'benchio: error: rank 0: '//phase//': '//self%path//': no end after ' &
                //decimal(self%limit)//' s (--phase-limit)'//new_line('a')
        end if
        call c_watch(int(self%limit + grace, c_int32_t), self%path//c_null_char, &
            message//c_null_char, int(exit_time_limit, c_int32_t))
    end subroutine watch

    !> This rank failed in its phase and now waits for the others.
    subroutine watch_failed(self, error, seconds)
        class(watchdog), intent(in) :: self
        type(failure), intent(inout) :: error
        integer, intent(in) :: seconds      !! since the phase began

        error%rank = self%rank
        call c_watch(int(max(1, self%limit - seconds), c_int32_t), self%path//c_null_char, &
            'benchio: error: '//error%line()//new_line('a')//c_null_char, &
            int(error%status, c_int32_t))
    end subroutine watch_failed

    !> The ranks have met.
    subroutine rest(self)
        class(watchdog), intent(in) :: self

        call c_watch(0_c_int32_t, self%path//c_null_char, c_null_char, 0_c_int32_t)
    end subroutine rest

end module benchio_watchdog
