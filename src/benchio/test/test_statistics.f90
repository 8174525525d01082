!> Against numpy.quantile, numpy.mean and numpy.std(ddof=1).
program test_statistics
    use, intrinsic :: iso_fortran_env, only: real64
    use benchio_statistics, only: median, statistics, summarise
    use check, only: expect
    implicit none (type, external)

    type(statistics) :: of

    of = summarise([3.0_real64, 1.0_real64, 4.0_real64, 1.5_real64])
    call expect(of%count == 4, 'count')
    call expect(near(of%min, 1.0_real64) .and. near(of%max, 4.0_real64), 'extremes')
    call expect(near(of%q1, 1.375_real64), 'lower quartile')
    call expect(near(of%median, 2.25_real64), 'median of an even number')
    call expect(near(of%q3, 3.25_real64), 'upper quartile')
    call expect(near(of%mean, 2.375_real64), 'mean')
    call expect(near(of%cov, 0.5797442681353792_real64), 'coefficient of variation')

    of = summarise([7.0_real64])
    call expect(near(of%median, 7.0_real64) .and. near(of%q1, 7.0_real64), 'a single value')
    call expect(near(of%cov, 0.0_real64), 'has no variation')
    call expect(near(median([9.0_real64, 2.0_real64, 2.0_real64, 8.0_real64, 1.0_real64]), &
        2.0_real64), 'median of an odd number with equals')

contains

    elemental logical function near(a, b)
        real(real64), intent(in) :: a, b

        near = abs(a - b) <= 1.0e-12_real64*max(1.0_real64, abs(b))
    end function near

end program test_statistics
