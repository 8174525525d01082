!> The clock of this process.
module benchio_clock
    use, intrinsic :: iso_c_binding, only: c_double
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none (type, external)
    private

    public :: now

    interface
        !> system_clock may be a clock that is set back.
        real(c_double) function c_seconds() bind(C, name='benchio_seconds')
            import :: c_double
        end function c_seconds
    end interface

contains

    !> Seconds of a monotonic clock; only differences mean something, and only on one node.
    real(real64) function now()
        now = c_seconds()
    end function now

end module benchio_clock
