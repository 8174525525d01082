!> Patterns of access: how a file is written and read where that is not one array in large pieces.
!>
!> A file has layers: each variable at each time step is one. In the array of the file they follow
!> each other along z, all variables of a step before the next step, as the records of a classic
!> NetCDF file do. So every pattern moves the same elements, and a control without variables of its
!> own writes the same bytes in the same order.
module benchio_access
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: parse_access

    !> Complete as it is: blocks in large pieces, one variable, one step.
    type, public :: access_pattern
        logical :: is_strided = .false.     !! rows of all writers take turns along the file
        logical :: is_random = .false.      !! the same, its own in a random order
        integer :: steps = 1                !! appended along an unlimited dimension
        integer :: variables = 1            !! each of as many elements
        integer :: deflate = 0              !! level, 1 to 9; 0: not compressed
        integer :: quantize = 0             !! significant decimal digits that are kept; 0: all
        logical :: is_nonblocking = .false. !! the transfers of a step are posted, then waited for
        integer :: subfiles = 0             !! that HDF5 makes of a file; 0: none
    contains
        procedure :: layers
        procedure :: has_rows
        procedure :: variable_name
        procedure :: kept_bits
        procedure :: tolerance
        procedure :: text => pattern_text
    end type access_pattern

    !> Decimal digits: of fewer, a value would tell too little of the run, the file and the round it
    !> is of; a double has no more.
    integer, parameter :: least_digits = 3, most_digits = 15

    integer, parameter :: most_layers = 10000

    !> Of a file: a process may mostly have 1024 files open, and to sync them it opens all.
    integer, parameter :: most_subfiles = 512

contains

    !> Of a file.
    pure integer(int64) function layers(self)
        class(access_pattern), intent(in) :: self

        layers = int(self%steps, int64)*self%variables
    end function layers

    !> Whether no call moves more than a row.
    pure logical function has_rows(self)
        class(access_pattern), intent(in) :: self

        has_rows = self%is_strided .or. self%is_random
    end function has_rows

    !> The name of a variable in the file, from 1.
    pure function variable_name(self, number) result(name)
        class(access_pattern), intent(in) :: self
        integer, intent(in) :: number
        character(:), allocatable :: name

        name = 'data'
        if (self%variables > 1) name = name//decimal(number)
    end function variable_name

    !> Those of a value's bits that are not 0. Values to be compressed without loss have 20 hashed
    !> bits behind their exponent: shuffled, they deflate to a third, and each still tells
    !> which run, file and round it is of.
    pure integer(int64) function kept_bits(self)
        class(access_pattern), intent(in) :: self

        kept_bits = not(0_int64)
        if (self%deflate > 0 .and. self%quantize == 0) kept_bits = shiftl(kept_bits, 32)
    end function kept_bits

    !> By how much a value in [1, 2) may differ from what was written: by half a unit of the last
    !> digit that is kept.
    pure real(real64) function tolerance(self)
        class(access_pattern), intent(in) :: self

        tolerance = 0
        if (self%quantize > 0) tolerance = 0.5_real64*10.0_real64**(1 - self%quantize)
    end function tolerance

    !> As parse_access reads it, in one order of its words; "blocks" if there is none.
    pure function pattern_text(self) result(text)
        class(access_pattern), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%is_strided) text = text//',strided'
        if (self%is_random) text = text//',random'
        if (self%steps > 1) text = text//',steps='//decimal(self%steps)
        if (self%variables > 1) text = text//',variables='//decimal(self%variables)
        if (self%deflate > 0) text = text//',deflate='//decimal(self%deflate)
        if (self%quantize > 0) text = text//',quantize='//decimal(self%quantize)
        if (self%is_nonblocking) text = text//',nonblocking'
        if (self%subfiles > 0) text = text//',subfiling='//decimal(self%subfiles)
        if (text == '') text = ',blocks'
        text = text(2:)
    end function pattern_text

    !> A comma list such as "steps=8,variables=4"; error is empty or one sentence.
    subroutine parse_access(value, pattern, error)
        character(*), intent(in) :: value
        type(access_pattern), intent(out) :: pattern
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: name, rest, word
        integer :: comma

        rest = value//','
        do while (len(rest) > 0 .and. error == '')
            comma = index(rest, ',')
            word = rest(:comma - 1)
            rest = rest(comma + 1:)
            name = word
            if (index(word, '=') > 0) name = word(:index(word, '='))
            select case (name)
            case ('blocks')
                if (value /= word) error = '--pattern blocks takes no other word beside it'
            case ('strided')
                pattern%is_strided = .true.
            case ('random')
                pattern%is_random = .true.
            case ('nonblocking')
                pattern%is_nonblocking = .true.
            case ('steps=')
                call parse_count(word, 2, most_layers, pattern%steps, error)
            case ('variables=')
                call parse_count(word, 2, most_layers, pattern%variables, error)
            case ('deflate=')
                call parse_count(word, 1, 9, pattern%deflate, error)
            case ('quantize=')
                call parse_count(word, least_digits, most_digits, pattern%quantize, error)
            case ('subfiling=')
                call parse_count(word, 1, most_subfiles, pattern%subfiles, error)
            case default
                error = '--pattern takes blocks, or a list of strided or random, steps=N, ' &
                    //'variables=N, deflate=LEVEL, quantize=DIGITS, nonblocking and ' &
                    //'subfiling=N, not "'//word//'"'
            end select
            if (error == '' .and. index(','//rest, ','//name) > 0) error = '--pattern names "' &
                //name//'" twice'
        end do
        if (error == '' .and. pattern%is_strided .and. pattern%is_random) then
            error = '--pattern strided and random exclude each other: random is strided as well'
        else if (error == '' .and. pattern%quantize > 0 .and. pattern%deflate == 0) then
            error = '--pattern quantize needs deflate=LEVEL: what is rounded takes as much room'
        end if
    end subroutine parse_access

    !> The number in a word such as steps=8.
    subroutine parse_count(word, least, most, count, error)
        character(*), intent(in) :: word
        integer, intent(in) :: least, most
        integer, intent(out) :: count
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: digits

        digits = word(index(word, '=') + 1:)
        count = -1
        if (len(digits) > 0 .and. len(digits) < 9 .and. verify(digits, '0123456789') == 0) then
            read (digits, *) count
        end if
        if (count >= least .and. count <= most) return
        error = '--pattern '//word(:index(word, '='))//' takes a whole number from ' &
            //decimal(least)//' to '//decimal(most)//', not "'//digits//'"'
        count = least
    end subroutine parse_count

end module benchio_access
