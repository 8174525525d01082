!> The pattern against values computed elsewhere, and its power to see what went wrong.
program test_pattern
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_pattern, only: count_mismatches, fill, halo_intact, pattern_key, pattern_value, &
        poison
    use check, only: expect
    implicit none (type, external)

    type(decomposition) :: block
    real(real64), allocatable :: field(:, :, :)
    integer(int64) :: first(3), key, mismatches

    call golden_values()

    block = new_decomposition([5_int64, 4_int64, 6_int64], [1_int64, 2_int64, 2_int64], 3_int64, &
        1_int64)
    key = pattern_key(1_int64, 1, 0)
    allocate (field(7, 4, 5))
    call fill(field, block, key)
    call expect(same(field(2, 2, 2), pattern_value(0 + 5*(2 + 4*3_int64), key)), &
        'the first element has the value of its global index')
    call expect(matches(), 'the block holds the pattern')
    call expect(halo_intact(field, block), 'the halo holds poison')

    field(3, 2, 4) = nearest(field(3, 2, 4), 1.0_real64)
    call expect(.not. matches(), 'one changed bit is seen')
    call expect(all(first == [1, 2, 5]), 'and where')
    call fill(field, block, pattern_key(1_int64, 2, 0))
    call expect(.not. matches(), 'data of another round are seen')
    call expect(mismatches == block%elements(), 'in every element')
    call fill(field, block, pattern_key(2_int64, 1, 0))
    call expect(.not. matches(), 'data of another seed are seen')
    call fill(field, block, key)
    field(2:6, 2:3, 2:4) = cshift(field(2:6, 2:3, 2:4), 1, dim=1)
    call expect(.not. matches(), 'shifted data are seen')
    field = 0
    call expect(.not. matches(), 'a hole is seen')
    call poison(field)
    call expect(.not. matches() .and. mismatches == block%elements(), 'missing data are seen')

    call fill(field, block, key)
    field(1, 2, 2) = field(2, 2, 2)
    call expect(matches() .and. .not. halo_intact(field, block), 'a touched x halo is seen')
    call fill(field, block, key)
    field(4, 4, 3) = 0
    call expect(.not. halo_intact(field, block), 'a touched y halo is seen')
    call fill(field, block, key)
    field(4, 2, 5) = 0
    call expect(.not. halo_intact(field, block), 'a touched z halo is seen')

contains

    !> Bits of values from the documented formula, evaluated in Python's unbounded integers.
    subroutine golden_values()
        integer(int64), parameter :: index(6) = [0_int64, 1_int64, 2_int64**31 - 1, 2_int64**31, &
            2_int64**40, 2_int64**60 + 12345]
        integer(int64), parameter :: one = int(z'3ff0000000000000', int64)
        integer(int64), parameter :: seed_1_round_1(6) = [3041745213093925_int64, &
            3299217052991472_int64, 2807110448167835_int64, 960410445183013_int64, &
            562959785687077_int64, 1281141027755703_int64]
        integer(int64), parameter :: largest_seed(6) = [3446424123119260_int64, &
            953876391336047_int64, 4179328879461981_int64, 4075847327323804_int64, &
            1704663495382684_int64, 3075050140456938_int64]
        integer :: i

        call expect(pattern_key(1_int64, 1, 0) == 351278061_int64, 'key of seed 1, round 1')
        call expect(pattern_key(1_int64, 2, 0) == 800653989_int64, 'key of seed 1, round 2')
        call expect(pattern_key(2_int64**31 - 1, 1000000, 0) == 1563707170_int64, &
            'key of the largest seed')
        do i = 1, size(index)
            call expect(transfer(pattern_value(index(i), 351278061_int64), one) &
                == one + seed_1_round_1(i), 'values of seed 1, round 1')
            call expect(transfer(pattern_value(index(i), 1563707170_int64), one) &
                == one + largest_seed(i), 'values of the largest seed')
        end do
    end subroutine golden_values

    logical function matches()
        call count_mismatches(field, block, key, mismatches, first)
        matches = mismatches == 0
    end function matches

    elemental logical function same(a, b)
        real(real64), intent(in) :: a, b

        same = transfer(a, 0_int64) == transfer(b, 0_int64)
    end function same

end program test_pattern
