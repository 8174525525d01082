!> The data benchio writes: a hash of (index, run, backend, file, round) that every reader can
!> recompute.
!>
!> With i the 0-based index x + nx*(y + ny*z) in the array of a file, M = 2^31 - 1, and the text
!> "RUN/BACKEND/FILE/ROUND", such as "0f3a/hdf5/0/1" of the first file in the first round (files
!> are counted on from target to target):
!>
!>     mix(x): y = ((x ^ (x >> 15))*739982445) & M
!>             y = ((y ^ (y >> 12))*695872825) & M
!>             return y ^ (y >> 15)
!>     key   = 0, then for each character c of the text: mix(((key ^ c) + 1013904223) & M)
!>     a     = mix((i & M) ^ key)
!>     b     = mix(a ^ mix(((i >> 31) & M) ^ ((key + 1013904223) & M)))
!>     value = 1 + ((b << 21) | (a & 2097151))*2^-52
!>
!> Every value lies in [1, 2), exactly representable, so a hole's zero, a shifted or swapped block
!> and one that another run, backend, file or round has left are all seen. Numbers stay under 2^63:
!> no reliance on integer overflow. `mix` can be undone, so that a wrong value tells of which place,
!> or of which key, it is. Its shifts and factors are those of a hash of 32 bits in C. Wellons,
!> "Prospecting for Hash Functions", 2018, here in 31 bits.
module benchio_pattern
    use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: decomposition
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: fill, halo_intact, key_of_text, pattern_key, pattern_value, poison

    !> Kinds of wrong elements.
    integer, parameter, public :: kind_zeros = 1, kind_shifted = 2, kind_of_other = 3, &
        kind_unknown = 4
    character(10), parameter, public :: kind_names(4) = [character(10) :: 'zeros', 'shifted', &
        'of another', 'unknown']

    !> Extents that a rank remembers.
    integer, parameter, public :: most_extents = 16

    integer(int64), parameter :: mask31 = 2_int64**31 - 1
    integer(int64), parameter :: increment = 1013904223_int64
    integer(int64), parameter :: exponent_of_one = shiftl(1023_int64, 52)
    integer(int64), parameter :: mask21 = 2_int64**21 - 1

    !> Factors of `mix`, and their inverses modulo 2^31.
    integer(int64), parameter :: factors(2) = [739982445_int64, 695872825_int64]
    integer(int64), parameter :: inverses(2) = [1693068645_int64, 217100553_int64]

    !> Fills halos, and memory before it is read into: never a value of the pattern.
    real(real64), parameter :: poison_value = -1.0_real64

    !> Wrong elements that follow each other in the file, and are wrong in the same way.
    type, public :: wrong_extent
        integer(int64) :: first = 0         !! index in the array of the file, from 0
        integer(int64) :: elements = 0
        integer :: kind = kind_unknown
        integer(int64) :: expected = 0      !! bits of the first, as they were written
        integer(int64) :: read = 0          !! and as they were read
        integer(int64) :: shift = 0         !! elements from each to the place that its value is of
        integer(int64) :: key = 0           !! of the pattern that its values are of
    end type wrong_extent

    !> Elements that are not what was written.
    type, public :: differences
        integer(int64) :: elements = 0
        integer(int64) :: zeros = 0         !! of them: what nobody wrote mostly reads as zero
        integer(int64) :: first = -1        !! index of the first in the array of the file, from 0
        integer :: extents = 0              !! all, of which the first are listed
        type(wrong_extent) :: listed(most_extents) = wrong_extent()
        type(wrong_extent), private :: last = wrong_extent()
        ! How they were written:
        integer(int64) :: kept_bits = not(0_int64)  !! the others are 0
        real(real64) :: tolerance = 0       !! of what a library has rounded; 0: every bit counts
    contains
        procedure :: add_run
        procedure :: add_block
        procedure :: line
    end type differences

contains

    !> 31-bit key of a file; file from 0, round from 1.
    pure integer(int64) function pattern_key(run_id, backend, file, round) result(key)
        character(*), intent(in) :: run_id, backend
        integer, intent(in) :: file, round

        character(:), allocatable :: text

        text = run_id//'/'//backend//'/'//decimal(file)//'/'//decimal(round)
        key = key_of_text(text)
    end function pattern_key

    !> 31-bit hash of a text; 0 if it is empty.
    pure integer(int64) function key_of_text(text) result(key)
        character(*), intent(in) :: text

        integer :: i

        key = 0
        do i = 1, len(text)
            key = mix(iand(ieor(key, iachar(text(i:i), int64)) + increment, mask31))
        end do
    end function key_of_text

    !> Value of the element with a 0-based global index.
    elemental real(real64) function pattern_value(index, key) result(value)
        integer(int64), intent(in) :: index, key

        value = transfer(pattern_bits(index, key), value)
    end function pattern_value

    !> Sets the block to the pattern and its halo to the poison value.
    pure subroutine fill(field, block, key, kept_bits)
        real(real64), intent(out) :: field(:, :, :)     !! extents of the block plus twice the halo
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: key
        integer(int64), intent(in), optional :: kept_bits   !! of each value; the others are 0

        integer(int64) :: bits, kept, x, y, z, start

        kept = not(0_int64)
        if (present(kept_bits)) kept = kept_bits
        if (block%halo > 0) field = poison_value
        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    start = row_start(block, y, z)
                    do x = 1, n(1)
                        bits = iand(pattern_bits(start + x, key), kept)
                        field(x + h, y + h, z + h) = transfer(bits, 0.0_real64)
                    end do
                end do
            end do
        end associate
    end subroutine fill

    !> Compares, bit for bit unless they were rounded, elements that follow each other in the file.
    pure subroutine add_run(self, values, start, key)
        class(differences), intent(inout) :: self
        real(real64), intent(in), contiguous :: values(:)
        integer(int64), intent(in) :: start             !! index of the first of them, from 0
        integer(int64), intent(in) :: key

        integer(int64) :: bits, i
        real(real64) :: distance

        do i = 1, size(values, kind=int64)
            bits = transfer(values(i), bits)
            if (bits == iand(pattern_bits(start + i - 1, key), self%kept_bits)) cycle
            if (self%tolerance > 0) then
                distance = huge(distance)   ! of what is no number, and traps in a comparison
                if (ieee_is_finite(values(i))) distance = abs(values(i) &
                    - pattern_value(start + i - 1, key))
                if (distance <= self%tolerance) cycle
            end if
            if (self%elements == 0) self%first = start + i - 1
            self%elements = self%elements + 1
            if (bits == 0) self%zeros = self%zeros + 1
            call note(self, start + i - 1, bits, key)
        end do
    end subroutine add_run

    !> Notes a wrong element in the last extent, or as the first of another one.
    pure subroutine note(self, index, bits, key)
        class(differences), intent(inout) :: self
        integer(int64), intent(in) :: index, bits, key

        if (self%extents > 0 .and. goes_on(self%last, index, bits, key)) then
            self%last%elements = self%last%elements + 1
        else
            self%extents = self%extents + 1
            self%last = wrong_extent(index, 1, expected=iand(pattern_bits(index, key), &
                self%kept_bits), read=bits)
            call classify(self%last, key)
        end if
        if (self%extents <= most_extents) self%listed(self%extents) = self%last
    end subroutine note

    !> Whether an element is the next of an extent, and wrong in the same way.
    pure logical function goes_on(extent, index, bits, key)
        type(wrong_extent), intent(in) :: extent
        integer(int64), intent(in) :: index, bits, key

        goes_on = index == extent%first + extent%elements
        if (.not. goes_on) return
        select case (extent%kind)
        case (kind_zeros)
            goes_on = bits == 0
        case (kind_shifted)
            goes_on = bits == pattern_bits(index + extent%shift, key)
        case (kind_of_other)
            goes_on = bits == pattern_bits(index, extent%key)
        case default
            goes_on = bits /= 0
        end select
    end function goes_on

    !> Finds what the first value of an extent is: a zero, what belongs to another place of the
    !> file, or what another file, round, backend or run has at this place.
    !>
    !> Both hashes of a value are undone. Of the first one 21 bits of 31 are in the value; for
    !> another key the other 10 are tried. One of two million other values is taken for such a one.
    pure subroutine classify(extent, key)
        type(wrong_extent), intent(inout) :: extent
        integer(int64), intent(in) :: key

        integer(int64) :: a, b, bits, high, low, other, place, upper

        bits = extent%read
        if (bits == 0) extent%kind = kind_zeros
        if (shiftr(bits, 52) /= shiftr(exponent_of_one, 52)) return
        b = iand(shiftr(bits, 21), mask31)
        low = iand(bits, mask21)
        upper = iand(shiftr(extent%first, 31), mask31)
        a = ieor(unmix(b), mix(ieor(upper, iand(key + increment, mask31))))
        if (iand(a, mask21) == low) then
            place = ior(shiftl(upper, 31), ieor(unmix(a), key))
            extent%kind = kind_shifted
            extent%shift = place - extent%first
            return
        end if
        do high = 0, 2**10 - 1
            a = ior(shiftl(high, 21), low)
            other = ieor(unmix(a), iand(extent%first, mask31))
            if (mix(ieor(a, mix(ieor(upper, iand(other + increment, mask31))))) /= b) cycle
            extent%kind = kind_of_other
            extent%key = other
            return
        end do
    end subroutine classify

    !> Compares a block, without its halo.
    pure subroutine add_block(self, field, block, key)
        class(differences), intent(inout) :: self
        real(real64), intent(in), contiguous :: field(:, :, :)  !! with halo
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: key

        integer(int64) :: y, z

        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    call self%add_run(field(h + 1:h + n(1), y + h, z + h), &
                        row_start(block, y, z) + 1, key)
                end do
            end do
        end associate
    end subroutine add_block

    !> As "3 of 8 elements differ from what was written, the first at x,y,z = 0,1,0; all are zero".
    pure function line(self, compared, global) result(text)
        class(differences), intent(in) :: self
        integer(int64), intent(in) :: compared          !! elements
        integer(int64), intent(in) :: global(3)         !! extents of the array
        character(:), allocatable :: text

        associate (i => self%first, n => global)
            text = decimal(self%elements)//' of '//decimal(compared) &
                //' elements differ from what was written, the first at x,y,z = ' &
                //decimal(mod(i, n(1)))//','//decimal(mod(i/n(1), n(2)))//',' &
                //decimal(i/n(1)/n(2))
        end associate
        if (self%zeros == self%elements) then
            text = text//'; all are zero'
        else if (self%zeros > 0) then
            text = text//'; '//decimal(self%zeros)//' are zero'
        end if
    end function line

    !> Forgets what is in memory, so that only a read can bring the pattern back.
    pure subroutine poison(field)
        real(real64), intent(out) :: field(:, :, :)

        field = poison_value
    end subroutine poison

    !> Whether no library touched the halo.
    pure logical function halo_intact(field, block)
        real(real64), intent(in) :: field(:, :, :)
        type(decomposition), intent(in) :: block

        integer(int64) :: y, z

        halo_intact = .true.
        associate (h => block%halo, n => block%extent)
            if (h == 0) return
            do z = 1, n(3) + 2*h
                do y = 1, n(2) + 2*h
                    if (z > h .and. z <= n(3) + h .and. y > h .and. y <= n(2) + h) then
                        halo_intact = halo_intact .and. poisoned(field(:h, y, z)) &
                            .and. poisoned(field(n(1) + h + 1:, y, z))
                    else
                        halo_intact = halo_intact .and. poisoned(field(:, y, z))
                    end if
                end do
            end do
        end associate
    end function halo_intact

    pure logical function poisoned(row)
        real(real64), intent(in) :: row(:)

        integer(int64), parameter :: bits = transfer(poison_value, 0_int64)
        integer :: i

        poisoned = .true.
        do i = 1, size(row)
            poisoned = poisoned .and. transfer(row(i), bits) == bits
        end do
    end function poisoned

    !> Global index of the element before the first of a row; y and z count from 1 in the block.
    pure integer(int64) function row_start(block, y, z)
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: y, z

        row_start = block%lower(1) - 1 + block%global(1) &
            *(block%lower(2) + y - 1 + block%global(2)*block%plane(z - 1))
    end function row_start

    elemental integer(int64) function pattern_bits(index, key) result(bits)
        integer(int64), intent(in) :: index, key

        integer(int64) :: a, b

        a = mix(ieor(iand(index, mask31), key))
        b = mix(ieor(a, mix(ieor(iand(shiftr(index, 31), mask31), &
            iand(key + increment, mask31)))))
        bits = ior(exponent_of_one, ior(shiftl(b, 21), iand(a, 2097151_int64)))
    end function pattern_bits

    elemental integer(int64) function mix(x) result(y)
        integer(int64), intent(in) :: x

        y = iand(ieor(x, shiftr(x, 15))*factors(1), mask31)
        y = iand(ieor(y, shiftr(y, 12))*factors(2), mask31)
        y = ieor(y, shiftr(y, 15))
    end function mix

    !> The number that `mix` makes another one of: its inverse.
    elemental integer(int64) function unmix(y) result(x)
        integer(int64), intent(in) :: y

        x = iand(unshifted(y, 15)*inverses(2), mask31)
        x = iand(unshifted(x, 12)*inverses(1), mask31)
        x = unshifted(x, 15)
    end function unmix

    !> The number of 31 bits that gives another one by xor with itself, shifted to the right.
    elemental integer(int64) function unshifted(y, places) result(x)
        integer(int64), intent(in) :: y
        integer, intent(in) :: places       !! at least 11

        x = ieor(y, ieor(shiftr(y, places), shiftr(y, 2*places)))
    end function unshifted

end module benchio_pattern
