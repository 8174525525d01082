!> How the elements are moved: in which order, and as which variables of the file.
!>
!> A file has layers: a variable at a time step is a layer. In the array of the file they follow
!> each other along z, all variables of a step before the next step, as the records of a classic
!> NetCDF file do. So the same elements are moved in any way, and a control without variables
!> writes the same bytes in the same order.
module benchio_access
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    !> A way to move the elements; complete as it is: blocks in large pieces, one variable, one
    !> step.
    type, public :: access_pattern
        character(7) :: order = 'blocks'    !! strided: rows of all ranks take turns along the
                                            !! file; random: a writer's in a random order as well
        integer :: steps = 1                !! appended along an unlimited dimension
        integer :: variables = 1            !! each of as many elements
        integer :: deflate = 0              !! level, 1 to 9; 0: not compressed
        integer :: quantize = 0             !! significant decimal digits that are kept; 0: all
        logical :: is_nonblocking = .false. !! the transfers of a step are posted, then waited for
        integer :: subfiles = 0             !! that the library makes of a file; 0: none
    contains
        procedure :: layers
        procedure :: has_rows
        procedure :: variable_name
        procedure :: kept_bits
        procedure :: tolerance
        procedure :: text
    end type access_pattern

    integer, parameter, public :: element_bytes = 8

    integer, parameter, public :: max_layers = 10000

    !> Subfiles of a file: a process may mostly have 1024 files open, and to sync them it opens all.
    integer, parameter, public :: max_subfiles = 512

contains

    !> Returns the layers of a file.
    pure integer(int64) function layers(self)
        class(access_pattern), intent(in) :: self

        layers = int(self%steps, int64)*self%variables
    end function layers

    !> Whether no call moves more than a row.
    pure logical function has_rows(self)
        class(access_pattern), intent(in) :: self

        has_rows = self%order /= 'blocks'
    end function has_rows

    !> Returns the name of a variable in the file, by its number from 1.
    pure function variable_name(self, number) result(name)
        class(access_pattern), intent(in) :: self
        integer, intent(in) :: number
        character(:), allocatable :: name

        name = 'data'
        if (self%variables > 1) name = name//decimal(number)
    end function variable_name

    !> Returns the bits of a value that are not 0. Values to be compressed without loss have 20
    !> hashed bits behind their exponent: shuffled, they deflate to a third, and each still tells
    !> which run, file and round it is of.
    pure integer(int64) function kept_bits(self)
        class(access_pattern), intent(in) :: self

        kept_bits = not(0_int64)
        if (self%deflate > 0 .and. self%quantize == 0) kept_bits = shiftl(kept_bits, 32)
    end function kept_bits

    !> Returns how much a value in [1, 2) may differ from what was written: half a unit of the last
    !> digit that is kept.
    pure real(real64) function tolerance(self)
        class(access_pattern), intent(in) :: self

        tolerance = 0
        if (self%quantize > 0) tolerance = 0.5_real64*10.0_real64**(1 - self%quantize)
    end function tolerance

    !> Returns the options that ask for it, as on a command line; empty for the usual way.
    pure function text(self)
        class(access_pattern), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%order /= 'blocks') text = ' --order '//trim(self%order)
        if (self%steps > 1) text = text//' --steps '//decimal(self%steps)
        if (self%variables > 1) text = text//' --variables '//decimal(self%variables)
        if (self%deflate > 0) text = text//' --deflate '//decimal(self%deflate)
        if (self%quantize > 0) text = text//' --quantize '//decimal(self%quantize)
        if (self%is_nonblocking) text = text//' --nonblocking'
        if (self%subfiles > 0) text = text//' --subfiles '//decimal(self%subfiles)
        text = text(2:)
    end function text

end module benchio_access
