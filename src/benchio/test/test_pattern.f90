!> The pattern against values computed elsewhere, and its power to see what went wrong.
program test_pattern
    use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
    use, intrinsic :: iso_c_binding, only: c_loc
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_access, only: access_pattern
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_pattern, only: content, differences, fill, halo_intact, pattern_key, &
        pattern_value, poison
    use benchio_text, only: decimal
    use check, only: expect
    implicit none (type, external)

    type(decomposition) :: block
    real(real64), allocatable, target :: field(:, :, :)
    type(access_pattern) :: rounded
    type(differences) :: wrong
    integer(int64) :: key

    call golden_values()

    block = new_decomposition([5_int64, 4_int64, 6_int64], [1_int64, 2_int64, 2_int64], 3_int64, &
        1_int64)
    key = pattern_key('a', 'mpiio', 0, 1)
    allocate (field(7, 4, 5))
    call fill(field, block, content(key))
    call expect(same(field(2, 2, 2), pattern_value(0 + 5*(2 + 4*3_int64), key)), &
        'the first element has the value of its global index')
    call expect(matches(), 'the block holds the pattern')
    call expect(halo_intact(field, block), 'the halo holds poison')

    field(3, 2, 4) = nearest(field(3, 2, 4), 1.0_real64)
    call expect(.not. matches(), 'one changed bit is seen')
    call expect(wrong%line(block%elements(), block%global) == '1 of '//decimal(block%elements()) &
        //' elements differ from what was written, the first at x,y,z = 1,2,5', 'and where')
    call expect_seen(pattern_key('a', 'mpiio', 0, 2), 'another round')
    call expect_seen(pattern_key('a', 'mpiio', 1, 1), 'another file')
    call expect_seen(pattern_key('a', 'hdf5', 0, 1), 'another backend')
    call expect_seen(pattern_key('b', 'mpiio', 0, 1), 'another run')
    call fill(field, block, content(key))
    call fill(field, block, content(key))
    field(2:6, 2:3, 2:4) = cshift(field(2:6, 2:3, 2:4), 1, dim=1)
    call expect(.not. matches(), 'shifted data are seen')
    field = 0
    call expect(.not. matches() .and. wrong%zeros == block%elements(), 'a hole is seen as one')
    call poison(field)
    call expect(.not. matches() .and. wrong%elements == block%elements(), 'missing data are seen')

    call fill(field, block, content(key))
    field(1, 2, 2) = field(2, 2, 2)
    call expect(matches() .and. .not. halo_intact(field, block), 'a touched x halo is seen')
    call fill(field, block, content(key))
    field(4, 4, 3) = 0
    call expect(.not. halo_intact(field, block), 'a touched y halo is seen')
    call fill(field, block, content(key))
    field(4, 2, 5) = 0
    call expect(.not. halo_intact(field, block), 'a touched z halo is seen')

    ! To 3 digits: values in [1, 2) to hundredths, each by no more than half of one.
    rounded%deflate = 1
    rounded%quantize = 3
    call expect(differs([1, 0]*0.0049_real64) == 0, 'what was rounded is within its tolerance')
    call expect(differs([1, 0]*0.0051_real64) == 1, 'what is further away is not')
    call expect(differs([ieee_value(0.0_real64, ieee_quiet_nan), 1.0_real64]) == 2, &
        'and no number never is')

contains

    !> How many of some values differ from what was written, by so much, and rounded.
    integer(int64) function differs(by)
        real(real64), intent(in) :: by(2)

        integer(int64), parameter :: index(2) = [0_int64, 1_int64]
        real(real64), target :: values(2)

        wrong = differences(written=content(key, rounded%kept_bits(), rounded%tolerance()))
        values = pattern_value(index, key) + by
        call wrong%add_run(c_loc(values), 2_int64, 0_int64)
        differs = wrong%elements
    end function differs

    !> Bits of values from the documented formula, evaluated in Python's unbounded integers.
    subroutine golden_values()
        integer(int64), parameter :: index(6) = [0_int64, 1_int64, 2_int64**31 - 1, 2_int64**31, &
            2_int64**40, 2_int64**60 + 12345]
        integer(int64), parameter :: one = int(z'3ff0000000000000', int64)
        integer(int64), parameter :: short_run(6) = [3612143807997284_int64, &
            1095997211227409_int64, 1575613409507784_int64, 1617183051195748_int64, &
            1437484056421732_int64, 3158462340670908_int64]
        integer(int64), parameter :: long_run(6) = [1946778263544920_int64, &
            3970786715050342_int64, 2964870778005683_int64, 2808053099062360_int64, &
            2565347011650648_int64, 3881618235983729_int64]
        integer :: i

        call expect(pattern_key('a', 'mpiio', 0, 1) == 1369760620_int64, 'key of a short run id')
        call expect(pattern_key('a', 'mpiio', 0, 2) == 463199091_int64, 'key of round 2')
        call expect(pattern_key('0123456789abcdef', 'hdf5', 999999, 1000001) &
            == 1978430321_int64, 'key of a long run id')
        do i = 1, size(index)
            call expect(transfer(pattern_value(index(i), 1369760620_int64), one) &
                == one + short_run(i), 'values of a short run id')
            call expect(transfer(pattern_value(index(i), 1978430321_int64), one) &
                == one + long_run(i), 'values of a long run id')
        end do
    end subroutine golden_values

    logical function matches()
        wrong = differences(written=content(key))
        call wrong%add_block(field, block)
        matches = wrong%elements == 0
    end function matches

    !> Expects that data of somebody else differ in every element.
    subroutine expect_seen(other, whose)
        integer(int64), intent(in) :: other     !! key
        character(*), intent(in) :: whose

        call fill(field, block, content(other))
        call expect(.not. matches() .and. wrong%elements == block%elements(), 'data of '//whose &
            //' are seen')
    end subroutine expect_seen

    elemental logical function same(a, b)
        real(real64), intent(in) :: a, b

        same = transfer(a, 0_int64) == transfer(b, 0_int64)
    end function same

end program test_pattern
