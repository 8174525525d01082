!> The arithmetic of durations: buckets, quantiles and the ends of their intervals.
program test_quantiles
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_quantiles, only: bounds, bucket_bound, bucket_of, distribution, distribution_of, &
        interval_ranks
    use check, only: expect
    implicit none (type, external)

    integer :: i
    type(distribution) :: figures

    call expect(abs(bucket_bound(20) - 1e-6_real64) < 1e-12_real64, 'a decade has 20 buckets')
    call expect(abs(bucket_bound(bounds - 1) - 100) < 1e-6_real64, 'the last bound is 100 s')
    call expect(all(bucket_of(bucket_bound([(i, i=0, bounds - 1)])) == [(i, i=0, bounds - 1)]), &
        'a bound is in its own bucket')
    call expect(all(bucket_of(bucket_bound([(i, i=0, bounds - 1)])*(1 + 1e-9_real64)) &
        == [(i, i=1, bounds)]), 'what is above it is in the next')
    call expect(bucket_of(0.0_real64) == 0 .and. bucket_of(1e9_real64) == bounds, &
        'nothing is outside')

    ! As in any table: of 100 calls the median lies between the 40th and the 61st.
    call expect(all(interval_ranks(100_int64, 0.5_real64) == [40_int64, 61_int64]), &
        'the interval of a median')
    call expect(all(interval_ranks(100_int64, 0.999_real64) == [99_int64, 101_int64]), &
        'too few calls have no upper end')
    call expect(all(interval_ranks(12000_int64, 0.999_real64) == [11981_int64, 11995_int64]), &
        'two minutes of calls have both ends')

    figures = distribution_of([(i*1e-3_real64, i=1, 1000)])
    call expect(figures%calls == 1000 .and. sum(figures%buckets) == 1000, 'each call counts once')
    call expect(abs(figures%values(1, 1) - 0.5_real64) < 1e-9_real64 &
        .and. abs(figures%values(1, 2) - 0.99_real64) < 1e-9_real64, 'quantiles are durations')
    call expect(figures%values(2, 2) < 0.99_real64 .and. figures%values(3, 2) > 0.99_real64, &
        'they lie within their intervals')
    call expect(figures%values(3, 3) < 0, 'an end that is not known')
    figures = distribution_of([real(real64) ::])
    call expect(figures%calls == 0 .and. all(figures%values < 0), 'no call, no figure')
end program test_quantiles
