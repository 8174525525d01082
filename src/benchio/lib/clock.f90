!> The clock of this process.
module benchio_clock
    use, intrinsic :: iso_fortran_env, only: int64, real64
    implicit none (type, external)
    private

    public :: now

contains

    !> Seconds of a monotonic clock; only differences mean something, and only on one rank.
    real(real64) function now()
        integer(int64) :: count, rate

        call system_clock(count, rate)
        now = real(count, real64)/real(rate, real64)
    end function now

end module benchio_clock
