!> The one assertion of the unit tests.
module check
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none (type, external)
    private

    public :: expect

contains

    !> Stops with exit status 1 unless what was expected holds.
    subroutine expect(holds, what)
        logical, intent(in) :: holds
        character(*), intent(in) :: what

        if (holds) return
        write (error_unit, '(2a)') 'does not hold: ', what
        error stop 1
    end subroutine expect

end module check
