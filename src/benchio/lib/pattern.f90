!> The data benchio writes: a hash of (index, seed, round, file) that every reader can recompute.
!>
!> With i the 0-based index x + nx*(y + ny*z) in the array of file f, from 0, and M = 2^31 - 1:
!>
!>     mix(x): y = ((x ^ (x >> 15))*739982445) & M
!>             y = ((y ^ (y >> 12))*695872825) & M
!>             return y ^ (y >> 15)
!>     key   = mix((seed + 1013904223*round + 1779033703*f) & M)
!>     a     = mix((i & M) ^ key)
!>     b     = mix(a ^ mix(((i >> 31) & M) ^ ((key + 1013904223) & M)))
!>     value = 1 + ((b << 21) | (a & 2097151))*2^-52
!>
!> Every value lies in [1, 2), exactly representable, so a hole's zero or a stale, shifted or
!> swapped block is seen. Numbers stay under 2^63: no reliance on integer overflow.
module benchio_pattern
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: decomposition
    implicit none (type, external)
    private

    public :: count_mismatches, fill, halo_intact, pattern_key, pattern_value, poison

    integer(int64), parameter :: mask31 = 2_int64**31 - 1
    integer(int64), parameter :: increment = 1013904223_int64
    integer(int64), parameter :: file_increment = 1779033703_int64
    integer(int64), parameter :: exponent_of_one = shiftl(1023_int64, 52)

    !> Fills halos, and the block before it is read back: never a value of the pattern.
    real(real64), parameter :: poison_value = -1.0_real64

contains

    !> 31-bit key of a file in a round of a run; seed from 0 to 2^31 - 1, round from 1, file from 0.
    elemental integer(int64) function pattern_key(seed, round, file) result(key)
        integer(int64), intent(in) :: seed
        integer, intent(in) :: round, file

        key = mix(iand(seed + increment*round + file_increment*file, mask31))
    end function pattern_key

    !> Value of the element with a 0-based global index.
    elemental real(real64) function pattern_value(index, key) result(value)
        integer(int64), intent(in) :: index, key

        value = transfer(pattern_bits(index, key), value)
    end function pattern_value

    !> Sets the block to the pattern and its halo to the poison value.
    pure subroutine fill(field, block, key)
        real(real64), intent(out) :: field(:, :, :)     !! extents of the block plus twice the halo
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: key

        integer(int64) :: x, y, z, start

        if (block%halo > 0) field = poison_value
        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    start = row_start(block, y, z)
                    do x = 1, n(1)
                        field(x + h, y + h, z + h) = pattern_value(start + x, key)
                    end do
                end do
            end do
        end associate
    end subroutine fill

    !> Number of elements of the block that differ from the pattern in any bit.
    pure subroutine count_mismatches(field, block, key, mismatches, first)
        real(real64), intent(in) :: field(:, :, :)
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: key
        integer(int64), intent(out) :: mismatches
        integer(int64), intent(out) :: first(3)         !! global index of the first, from 0

        integer(int64) :: x, y, z, start

        mismatches = 0
        first = -1
        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    start = row_start(block, y, z)
                    do x = 1, n(1)
                        if (transfer(field(x + h, y + h, z + h), start) &
                            /= pattern_bits(start + x, key)) then
                            if (mismatches == 0) then
                                first(1) = block%lower(1) + x - 1
                                first(2) = block%lower(2) + y - 1
                                first(3) = block%lower(3) + z - 1
                            end if
                            mismatches = mismatches + 1
                        end if
                    end do
                end do
            end do
        end associate
    end subroutine count_mismatches

    !> Forgets the block and its halo, so that only a read can bring the pattern back.
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
            *(block%lower(2) + y - 1 + block%global(2)*(block%lower(3) + z - 1))
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

        y = iand(ieor(x, shiftr(x, 15))*739982445_int64, mask31)
        y = iand(ieor(y, shiftr(y, 12))*695872825_int64, mask31)
        y = ieor(y, shiftr(y, 15))
    end function mix

end module benchio_pattern
