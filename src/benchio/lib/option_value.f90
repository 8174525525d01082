!> The value of one option of the command line: what it may be, and one sentence if it is not.
module benchio_option_value
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: max_extent
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: parse_extents, parse_list, parse_number, parse_one_of

contains

    !> The first of two words is true.
    subroutine parse_one_of(name, value, yes, no, chosen, error)
        character(*), intent(in) :: name, value, yes, no
        logical, intent(out) :: chosen
        character(:), allocatable, intent(inout) :: error

        chosen = value == yes
        if (value /= yes .and. value /= no) then
            error = name//' takes '//yes//' or '//no//', not "'//value//'"'
        end if
    end subroutine parse_one_of

    !> A comma list of names, each once; whether they exist is the registry's to say.
    subroutine parse_list(name, value, names, error)
        character(*), intent(in) :: name, value
        character(8), allocatable, intent(out) :: names(:)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: rest, item
        integer :: comma

        allocate (names(0))
        rest = value//','
        do while (len(rest) > 0)
            comma = index(rest, ',')
            item = rest(:comma - 1)
            rest = rest(comma + 1:)
            if (item == '') then
                error = name//' has an empty name in "'//value//'"'
            else if (len(item) > len(names)) then
                error = name//' does not know "'//item//'"'
            else if (any(names == item)) then
                error = name//' names "'//item//'" twice'
            end if
            if (error /= '') return
            names = [character(8) :: names, item]
        end do
    end subroutine parse_list

    !> "N", if one is allowed for all three, or "NxNxN"; each 1 to 2^31 - 1.
    subroutine parse_extents(name, value, cube_allowed, numbers, error)
        character(*), intent(in) :: name, value
        logical, intent(in) :: cube_allowed
        integer(int64), intent(out) :: numbers(3)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: rest
        integer :: i, cross

        numbers = 0
        if (cube_allowed .and. index(value, 'x') == 0) then
            call parse_number(name, value, 1_int64, max_extent, numbers(1), error)
            numbers = numbers(1)
            return
        end if
        rest = value
        do i = 1, 3
            cross = index(rest//'x', 'x')
            call parse_number(name, rest(:cross - 1), 1_int64, max_extent, numbers(i), error)
            if (error /= '' .or. (i < 3 .and. cross > len(rest)) &
                .or. (i == 3 .and. cross <= len(rest))) then
                error = name//' takes '//trim(merge('N or NxNxN', 'PxQxR     ', cube_allowed))// &
                    ' with numbers from 1 to 2147483647, not "'//value//'"'
                return
            end if
            rest = rest(min(cross, len(rest)) + 1:)
        end do
    end subroutine parse_extents

    subroutine parse_number(name, value, least, most, number, error)
        character(*), intent(in) :: name, value
        integer(int64), intent(in) :: least, most
        integer(int64), intent(out) :: number
        character(:), allocatable, intent(inout) :: error

        number = -1
        if (len(value) > 0 .and. len(value) <= 18 .and. verify(value, '0123456789') == 0) then
            read (value, *) number
        end if
        if (number < least .or. number > most) then
            error = name//' takes a whole number from '//decimal(least)//' to '//decimal(most)// &
                ', not "'//value//'"'
            number = least
        end if
    end subroutine parse_number

end module benchio_option_value
