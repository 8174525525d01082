!> What else a node was doing, as it says itself in /proc, for the record: no figure depends on it,
!> and what cannot be read is left unknown.
module benchio_node_state
    use, intrinsic :: iso_fortran_env, only: real64
    use benchio_posix, only: now
    implicit none (type, external)
    private

    public :: kernel_version, look_at_node, node_facts, own_ticks

    integer, parameter, public :: facts = 6
    character(*), parameter, public :: fact_names(facts) = [character(14) :: 'load', &
        'io_waiting', 'cpu_waiting', 'memory_waiting', 'stolen', 'others']
    real(real64), parameter, public :: not_known = -1

    !> At one time. Counters only grow.
    type, public :: node_state
        private
        real(real64) :: load = not_known        !! processes that ran or waited, in the last minute
        real(real64) :: io = not_known          !! part of the last minute, see node_facts
        real(real64) :: cpu = not_known         !! seconds since the node was started, likewise
        real(real64) :: memory = not_known      !! likewise
        real(real64) :: stolen = not_known      !! processor time that the host of this node took
        real(real64) :: used = not_known        !! processor time of all processes, in that unit
        real(real64) :: own = not_known         !! processor time of this rank, in that unit
        real(real64) :: all = not_known         !! processor time of whatever kind, in that unit
        real(real64) :: at = 0                  !! seconds of the monotonic clock
    end type node_state

contains

    !> Of a rank that is not the first on its node, its own processor time alone.
    function look_at_node(is_first) result(state)
        logical, intent(in) :: is_first
        type(node_state) :: state

        character(:), allocatable :: line
        real(real64) :: times(8)                ! the eighth is what was stolen
        integer :: status

        state%own = ticks_of_process(first_line('/proc/self/stat'))
        if (.not. is_first) return
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
        state%used = sum(times(:3))
        state%stolen = times(8)
        state%all = sum(times)
    end function look_at_node

    !> By the names in `fact_names`: the load before; the part of the minute before in which
    !> processes waited for I/O, which later would be one's own; the parts of the time between in
    !> which processes waited for a processor, and for memory; the part of the processors' time that
    !> a virtual node did not get from its host; and that part of it which went to processes other
    !> than the ranks, whose time on this node is `ranks`.
    pure function node_facts(before, after, ranks) result(values)
        type(node_state), intent(in) :: before, after
        real(real64), intent(in) :: ranks       !! ticks; not known if less than 0
        real(real64) :: values(facts)

        real(real64) :: microseconds

        microseconds = 1e6_real64*(after%at - before%at)
        values = [before%load, before%io, &
            part(before%cpu, after%cpu, microseconds), &
            part(before%memory, after%memory, microseconds), &
            part(before%stolen, after%stolen, after%all - before%all), not_known]
        if (ranks >= 0) values(facts) = part(before%used, max(before%used, after%used - ranks), &
            after%all - before%all)
    end function node_facts

    !> Processor time of this rank between two looks, in ticks; so little that it is less than 0
    !> whatever is added if it is not known.
    pure real(real64) function own_ticks(before, after)
        type(node_state), intent(in) :: before, after

        own_ticks = -1e15_real64
        if (before%own >= 0) own_ticks = after%own - before%own
    end function own_ticks

    pure real(real64) function part(first, last, whole)
        real(real64), intent(in) :: first, last, whole

        part = not_known
        if (first >= 0 .and. last >= first .and. whole > 0) part = min(1.0_real64, &
            (last - first)/whole)
    end function part

    !> The processor time that a process has had, from its line in /proc: its fields 14 and 15. The
    !> second is its name, in parentheses.
    real(real64) function ticks_of_process(line) result(ticks)
        character(*), intent(in) :: line

        character(8) :: state
        real(real64) :: fields(12)
        integer :: status

        ticks = not_known
        read (line(index(line, ')', back=.true.) + 1:), *, iostat=status) state, fields
        if (status == 0) ticks = sum(fields(11:))
    end function ticks_of_process

    !> The kernel of this node, as "Linux 6.1.0".
    function kernel_version() result(text)
        character(:), allocatable :: text

        text = first_line('/proc/sys/kernel/ostype')//' '//first_line('/proc/sys/kernel/osrelease')
    end function kernel_version

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
