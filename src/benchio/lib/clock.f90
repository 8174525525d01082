!> The clock of this process.
module benchio_clock
    use, intrinsic :: iso_c_binding, only: c_double
    implicit none (type, external)
    private

    public :: now

    interface
        !> Seconds of a monotonic clock; only differences mean something, and only on one node.
        !> system_clock may be a clock that is set back.
        real(c_double) function now() bind(C, name='benchio_seconds')
            import :: c_double
        end function now
    end interface

end module benchio_clock
