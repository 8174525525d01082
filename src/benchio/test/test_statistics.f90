!> The median of repetitions.
program test_statistics
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_statistics, only: median
    use check, only: expect
    implicit none (type, external)

    call expect(same(median([3.0_real64]), 3.0_real64), 'of one value')
    call expect(same(median([4.0_real64, 1.0_real64]), 2.5_real64), 'of two')
    call expect(same(median([7.0_real64, 1.0_real64, 1.0_real64]), 1.0_real64), 'of equal ones')
    call expect(same(median([8.0_real64, 1.0_real64, 4.0_real64, 2.0_real64]), 3.0_real64), &
        'of an even number')

contains

    elemental logical function same(a, b)
        real(real64), intent(in) :: a, b

        same = transfer(a, 0_int64) == transfer(b, 0_int64)
    end function same

end program test_statistics
