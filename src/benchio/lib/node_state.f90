!> What else a node was doing, as it says itself in /proc, for the record: no figure depends on it,
!> and what cannot be read is left unknown.
module benchio_node_state
    use, intrinsic :: iso_fortran_env, only: real64
    use benchio_clock, only: now
    implicit none (type, external)
    private

    public :: look_at_node, node_facts

    integer, parameter, public :: facts = 5
    character(*), parameter, public :: fact_names(facts) = [character(14) :: 'load', &
        'io_waiting', 'cpu_waiting', 'memory_waiting', 'stolen']
    real(real64), parameter, public :: not_known = -1

    !> At one time. Counters only grow.
    type, public :: node_state
        private
        real(real64) :: load = not_known        !! processes that ran or waited, in the last minute
        real(real64) :: io = not_known          !! part of the last minute, see node_facts
        real(real64) :: cpu = not_known         !! seconds since the node was started, likewise
        real(real64) :: memory = not_known      !! likewise
        real(real64) :: stolen = not_known      !! processor time that the host of this node took
        real(real64) :: all = not_known         !! processor time of whatever kind, in that unit
        real(real64) :: at = 0                  !! seconds of the monotonic clock
    end type node_state

contains

    function look_at_node() result(state)
        type(node_state) :: state

        character(:), allocatable :: line
        real(real64) :: times(8)                ! the eighth is what was stolen
        integer :: status

        state%at = now()
        state%load = number_after('', first_line('/proc/loadavg'))
        state%io = number_after('avg60=', first_line('/proc/pressure/io'))
        if (state%io >= 0) state%io = state%io/100
        state%cpu = number_after('total=', first_line('/proc/pressure/cpu'))
        state%memory = number_after('total=', first_line('/proc/pressure/memory'))
        line = first_line('/proc/stat')
        if (index(line, 'cpu ') /= 1) return
        read (line(4:), *, iostat=status) times
        if (status /= 0) return
        state%stolen = times(8)
        state%all = sum(times)
    end function look_at_node

    !> By the names in `fact_names`: the load before; the part of the minute before in which
    !> processes waited for I/O, which later would be one's own; the parts of the time between in
    !> which processes waited for a processor, and for memory; the part of the processors' time that
    !> a virtual node did not get from its host.
    pure function node_facts(before, after) result(values)
        type(node_state), intent(in) :: before, after
        real(real64) :: values(facts)

        real(real64) :: microseconds

        microseconds = 1e6_real64*(after%at - before%at)
        values = [before%load, before%io, &
            part(before%cpu, after%cpu, microseconds), &
            part(before%memory, after%memory, microseconds), &
            part(before%stolen, after%stolen, after%all - before%all)]
    end function node_facts

    pure real(real64) function part(first, last, whole)
        real(real64), intent(in) :: first, last, whole

        part = not_known
        if (first >= 0 .and. last >= first .and. whole > 0) part = min(1.0_real64, &
            (last - first)/whole)
    end function part

    !> Empty if it cannot be read.
    function first_line(path) result(line)
        character(*), intent(in) :: path
        character(:), allocatable :: line

        character(256) :: buffer
        integer :: unit, status

        line = ''
        open (newunit=unit, file=path, action='read', status='old', iostat=status)
        if (status /= 0) return
        read (unit, '(a)', iostat=status) buffer
        if (status == 0) line = trim(buffer)
        close (unit)
    end function first_line

    !> The number that follows a key; not known if there is none.
    real(real64) function number_after(key, line) result(value)
        character(*), intent(in) :: key, line

        integer :: at, status

        value = not_known
        at = index(line, key)
        if (line == '' .or. at == 0) return
        read (line(at + len(key):), *, iostat=status) value
        if (status /= 0) value = not_known
    end function number_after

end module benchio_node_state
