!> Numbers and text as a person reads them.
module benchio_text
    use, intrinsic :: iso_fortran_env, only: int64, real64
    implicit none (type, external)
    private

    public :: decimal, extents, listed, one_line, rate_text

    !> An integer that was not asked for, or is not known.
    integer(int64), parameter, public :: unset = -huge(0_int64)

    !> Writes an integer without blanks.
    interface decimal
        module procedure decimal_int, decimal_int64
    end interface decimal

contains

    pure function decimal_int(number) result(text)
        integer, intent(in) :: number
        character(:), allocatable :: text

        text = decimal_int64(int(number, int64))
    end function decimal_int

    pure function decimal_int64(number) result(text)
        integer(int64), intent(in) :: number
        character(:), allocatable :: text

        character(20) :: buffer

        write (buffer, '(i0)') number
        text = trim(buffer)
    end function decimal_int64

    !> Writes extents as 128x64x64.
    pure function extents(numbers) result(text)
        integer(int64), intent(in) :: numbers(3)
        character(:), allocatable :: text

        text = decimal(numbers(1))//'x'//decimal(numbers(2))//'x'//decimal(numbers(3))
    end function extents

    !> Lists words as "a, b or c".
    pure function listed(words, last) result(text)
        character(*), intent(in) :: words(:)
        character(*), intent(in) :: last            !! stands before the last of several
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(words)
            if (i > 1 .and. i < size(words)) text = text//', '
            if (i > 1 .and. i == size(words)) text = text//' '//last//' '
            text = text//trim(words(i))
        end do
    end function listed

    !> Puts blanks in the place of control characters. A library's text may have several lines, or
    !> end with NUL.
    pure function one_line(text)
        character(*), intent(in) :: text
        character(:), allocatable :: one_line

        integer :: i

        one_line = text
        do i = 1, len(text)
            if (iachar(text(i:i)) < 32 .or. iachar(text(i:i)) == 127) one_line(i:i) = ' '
        end do
        one_line = trim(one_line)
    end function one_line

    !> Writes a rate in nine columns, with digits that say something however slow it is.
    pure function rate_text(rate) result(text)
        real(real64), intent(in) :: rate
        character(9) :: text

        if (rate >= 10) then
            write (text, '(f9.1)') rate
        else if (rate >= 1) then
            write (text, '(f9.2)') rate
        else if (rate >= 0.1_real64) then
            write (text, '(f9.3)') rate
        else
            write (text, '(es9.2)') rate
        end if
    end function rate_text

end module benchio_text
