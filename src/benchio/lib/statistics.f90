!> Summary statistics of a few repetitions.
module benchio_statistics
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none (type, external)
    private

    public :: median, quantile, summarise

    !> In the unit of the values; cov is the sample standard deviation over the mean.
    type, public :: statistics
        integer :: count = 0
        real(real64) :: min = 0, q1 = 0, median = 0, q3 = 0, max = 0, mean = 0, cov = 0
    end type statistics

contains

    !> Of one or more positive values.
    pure function summarise(values) result(summary)
        real(real64), intent(in) :: values(:)
        type(statistics) :: summary

        real(real64) :: sorted(size(values))

        sorted = ascending(values)
        summary%count = size(values)
        summary%min = minval(values)
        summary%q1 = quantile(sorted, 0.25_real64)
        summary%median = quantile(sorted, 0.5_real64)
        summary%q3 = quantile(sorted, 0.75_real64)
        summary%max = maxval(values)
        summary%mean = sum(values)/size(values)
        if (size(values) > 1) then
            summary%cov = sqrt(sum((values - summary%mean)**2)/(size(values) - 1))/summary%mean
        end if
    end function summarise

    !> Of one or more values in any order.
    pure real(real64) function median(values)
        real(real64), intent(in) :: values(:)

        median = quantile(ascending(values), 0.5_real64)
    end function median

    !> Linear interpolation between order statistics (Hyndman & Fan 1996, type 7, numpy's default).
    pure real(real64) function quantile(sorted, fraction)
        real(real64), intent(in) :: sorted(:)       !! ascending, at least one
        real(real64), intent(in) :: fraction        !! 0 to 1

        real(real64) :: position
        integer :: below

        position = 1 + fraction*(size(sorted) - 1)
        below = min(int(position), size(sorted) - 1)
        if (size(sorted) == 1) then
            quantile = minval(sorted)
        else
            quantile = sorted(below) + (position - below)*(sorted(below + 1) - sorted(below))
        end if
    end function quantile

    pure function ascending(values) result(sorted)
        real(real64), intent(in) :: values(:)
        real(real64) :: sorted(size(values))

        integer :: i, at

        do i = 1, size(values)      ! insertion: repetitions are few
            at = count(sorted(:i - 1) <= values(i)) + 1
            sorted(at + 1:i) = sorted(at:i - 1)
            sorted(at) = values(i)
        end do
    end function ascending

end module benchio_statistics
