!> Command lines for unit tests.
module command_lines
    use benchio_command_line, only: argument
    implicit none (type, external)
    private

    public :: words

contains

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

end module command_lines
