!> Durations of many calls: in buckets, each a twentieth of a decade, and by order statistics.
!>
!> Bucket i, from 0, holds what took longer than bound i - 1 and at most bound i; the last one what
!> took longer than the last bound. A quantile is one of the durations themselves, and so are the
!> ends of its interval, which holds the true quantile with 95 % whatever the distribution: how many
!> of n calls are at most the quantile p is binomial.
module benchio_quantiles
    use, intrinsic :: iso_fortran_env, only: int64, real64
    implicit none (type, external)
    private

    public :: bucket_bound, bucket_of, distribution_of, interval_ranks

    !> From 100 ns to 100 s.
    integer, parameter, public :: bounds = 181, per_decade = 20
    real(real64), parameter :: first_bound = 1e-7_real64

    integer, parameter, public :: quantiles = 3
    real(real64), parameter, public :: quantile_parts(quantiles) = [0.5_real64, 0.99_real64, &
        0.999_real64]
    character(*), parameter, public :: quantile_names(quantiles) = [character(4) :: &
        'p50', 'p99', 'p999']

    !> In each tail of an interval.
    real(real64), parameter :: tail = 0.025_real64

    !> What a number of calls took, in seconds.
    type, public :: distribution
        integer(int64) :: calls = 0
        real(real64) :: total = 0, longest = 0
        !> (quantile, and both ends of its interval; quantile): less than 0 is not known, for too
        !> few calls tell.
        real(real64) :: values(3, quantiles) = -1
        integer(int64) :: buckets(0:bounds) = 0
    end type distribution

contains

    !> Returns the bound of a bucket, seconds.
    elemental real(real64) function bucket_bound(bucket) result(bound)
        integer, intent(in) :: bucket               !! from 0 to bounds - 1

        bound = first_bound*10**(real(bucket, real64)/per_decade)
    end function bucket_bound

    !> Returns the bucket of a duration; `bounds` is that of what is above them all.
    elemental integer function bucket_of(seconds) result(bucket)
        real(real64), intent(in) :: seconds

        bucket = 0
        if (seconds > first_bound) bucket = min(bounds, &
            ceiling(per_decade*log10(min(seconds, 1e6_real64)/first_bound)))
        ! The logarithm may be off at a bound.
        if (bucket > 0) bucket = bucket - merge(1, 0, seconds <= bucket_bound(bucket - 1))
        if (bucket < bounds) bucket = bucket + merge(1, 0, seconds > bucket_bound(bucket))
    end function bucket_of

    !> Returns the ranks of the order statistics that are the ends of a quantile's interval: 0 and
    !> n + 1 where no call is one.
    pure function interval_ranks(n, part) result(ranks)
        integer(int64), intent(in) :: n             !! calls
        real(real64), intent(in) :: part
        integer(int64) :: ranks(2)

        real(real64) :: sum_to
        integer(int64) :: k

        ranks = [0_int64, n + 1]
        sum_to = 0
        do k = 0, n
            ! So far: the probability of fewer than k calls at most the quantile.
            if (sum_to <= tail) ranks(1) = k
            sum_to = sum_to + exp(log_gamma(n + 1.0_real64) - log_gamma(k + 1.0_real64) &
                - log_gamma(n - k + 1.0_real64) + k*log(part) + (n - k)*log(1 - part))
            if (sum_to < 1 - tail) cycle
            ranks(2) = k + 1
            return
        end do
    end function interval_ranks

    !> Says what durations come to; there may be none.
    pure function distribution_of(ordered) result(figures)
        real(real64), intent(in) :: ordered(:)      !! seconds, ascending
        type(distribution) :: figures

        integer(int64) :: i, n, ranks(2)
        integer :: bucket, q

        n = size(ordered, kind=int64)
        if (n == 0) return
        figures%calls = n
        figures%total = sum(ordered)
        figures%longest = ordered(n)
        do i = 1, n
            bucket = bucket_of(ordered(i))
            figures%buckets(bucket) = figures%buckets(bucket) + 1
        end do
        do q = 1, quantiles
            figures%values(1, q) = ordered(ceiling(quantile_parts(q)*n, int64))
            ranks = interval_ranks(n, quantile_parts(q))
            if (ranks(1) >= 1) figures%values(2, q) = ordered(ranks(1))
            if (ranks(2) <= n) figures%values(3, q) = ordered(ranks(2))
        end do
    end function distribution_of

end module benchio_quantiles
