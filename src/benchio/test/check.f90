!> The one assertion of the unit tests, and command lines for them.
module check
    use, intrinsic :: iso_fortran_env, only: error_unit
    use benchio_command_line, only: argument
    implicit none (type, external)
    private

    public :: expect, words

contains

    !> Stops with exit status 1 unless what was expected holds.
    subroutine expect(holds, what)
        logical, intent(in) :: holds
        character(*), intent(in) :: what

        if (holds) return
        write (error_unit, '(2a)') 'does not hold: ', what
        error stop 1
    end subroutine expect

    !> Arguments of a command line that have no blanks in them.
    pure function words(line) result(list)
        character(*), intent(in) :: line
        type(argument), allocatable :: list(:)

        character(:), allocatable :: rest
        integer :: blank

        allocate (list(0))
        rest = trim(line)
        do while (len(rest) > 0)
            blank = index(rest//' ', ' ')
            list = [list, argument(rest(:blank - 1))]
            rest = rest(min(blank, len(rest)) + 1:)
        end do
    end function words

end module check
