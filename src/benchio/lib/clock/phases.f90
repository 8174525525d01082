!> Phases of a timed operation: what the clock of each rank says of them, and what all clocks say
!> together.
!>
!> An operation begins when all ranks have left a barrier, and its clock runs until the last phase
!> has ended: nothing sets it back in between. Processes of a node read one clock, and have one time
!> 0 there, when the first of them leaves the barrier. So a rank that leaves it late makes nobody
!> faster on its node. No clock is common to several nodes: there the operation also has a span by
!> the clock of rank 0, from the barrier to an agreement of all ranks, and the longer one counts.
!>
!> A node has one clock, so its window of a phase is exact, and one client that is slow shows among
!> the others: in the sync, which is each node's alone. Where ranks wait for each other inside a
!> phase, as in collective calls, all nodes take as long as the slowest.
module benchio_phases
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_2DOUBLE_PRECISION, MPI_Allreduce, MPI_COMM_NULL, MPI_Comm_size, &
        MPI_DOUBLE_PRECISION, MPI_Gather, MPI_IN_PLACE, MPI_MAX, MPI_MAXLOC, MPI_MIN, MPI_Reduce, &
        MPI_SUM, operator(==)
    use benchio_ownership, only: file_share, ownership
    use benchio_posix, only: now
    use benchio_statistics, only: sorted
    implicit none (type, external)
    private

    public :: spread_of, step_of_clock, summarise

    !> Phases in the order of time. `total` is from open to close, and `stable` from open to sync.
    integer, parameter, public :: phase_open = 1, phase_define = 2, phase_write = 3, &
        phase_read = 4, phase_flush = 5, phase_close = 6, phase_sync = 7, phase_total = 8, &
        phase_stable = 9, phase_unlink = 10, phase_mkdir = 11, phase_create = 12, phase_stat = 13, &
        phase_list = 14, phase_rename = 15, phase_rmdir = 16, phases = 16
    character(*), parameter, public :: phase_names(phases) = [character(6) :: &
        'open', 'define', 'write', 'read', 'flush', 'close', 'sync', 'total', 'stable', 'unlink', &
        'mkdir', 'create', 'stat', 'list', 'rename', 'rmdir']

    !> Parts of the write or read phase that are not the library's; and calls on files, and what is
    !> benchio's in it, of a phase that goes from one file to the next.
    integer, parameter, public :: part_gather = 1, part_pack = 2, part_stat = 3, part_check = 7, &
        parts = 7
    character(*), parameter, public :: part_names(parts) = [character(6) :: 'gather', 'pack', &
        'stat', 'open', 'read', 'close', 'check']

    integer, parameter, public :: rate_data = 1, rate_total = 2, rate_stable = 3, rates = 3
    character(*), parameter, public :: rate_names(rates) = [character(6) :: &
        'data', 'total', 'stable']

    !> Seconds that stand for no time at all; a difference of two stays finite.
    real(real64), parameter, public :: absent = -1e15_real64

    !> Part of a span by which two clocks may differ without a word.
    real(real64), parameter :: clocks_apart = 0.01_real64

    !> Steps of the clock that a span takes at least: each end is rounded down to a step, so a rate
    !> is wrong by 1 % at most.
    integer, parameter, public :: least_steps = 100

    !> What one rank has noted of an operation, in seconds of its node's clock.
    type, public :: stopwatch
        real(real64) :: start = 0               !! of the operation under way: out of its barrier
        real(real64) :: zero(phases) = 0        !! start of the operation that a phase belongs to
        real(real64) :: begun(phases) = absent  !! absent: this rank takes no part
        real(real64) :: ended(phases) = absent
        real(real64) :: agreed(phases) = absent !! when all ranks knew that it had succeeded
        real(real64) :: part_seconds(parts) = 0
    end type stopwatch

    !> Seconds of a phase over the ranks that take part in it; on rank 0.
    type, public :: phase_time
        logical :: occurs = .false.
        real(real64) :: min = 0, mean = 0, max = 0
        integer :: slowest_rank = 0
        real(real64) :: window = 0              !! over all files: what counts
        real(real64) :: file_window = 0         !! of the file that took longest, by its ranks
        ! Of an operation that all ranks begin together; less than 0 of a phase inside one:
        real(real64) :: by_ranks = -1           !! first begin to last end, each since its node's 0
        real(real64) :: by_rank_0 = -1          !! its node's 0 to the agreement of all ranks
        ! Of a span, total or stable; less than 0 of a phase:
        real(real64) :: between = -1            !! seconds of it in which no rank is in a phase
        real(real64) :: overlap = -1            !! seconds that windows of its phases share
        integer(int64) :: operations = 0        !! on names, of all ranks; 0: it is of data
    end type phase_time

    !> Figures of a node: MiB moved, and seconds of write, read and sync.
    integer, parameter, public :: node_figures = 4
    character(*), parameter, public :: node_figure_names(node_figures) = [character(5) :: &
        'mib', 'write', 'read', 'sync']

    !> Nodes that are listed one by one; of more only quantiles are.
    integer, parameter :: most_listed = 64

    !> One figure over the nodes.
    type, public :: node_spread
        integer :: nodes = 0                        !! that have it; 0: none
        real(real64), allocatable :: each(:)        !! of each node; less than 0: it has none
        real(real64) :: quantiles(5) = -1           !! least, quarter, median, three quarters, most
        integer :: least = 0, most = 0              !! nodes that have those, from 1
    end type node_spread

    !> One write or read of all files; on rank 0.
    type, public :: timing
        type(phase_time) :: of_phase(phases)
        type(phase_time) :: of_part(parts)              !! without windows
        logical :: clocks_agree = .true.                !! of nodes, to 1 % of every operation
        real(real64) :: clock_step = 0                  !! s, of the rank with the coarsest clock
        type(node_spread) :: of_nodes(node_figures)     !! on rank 0 alone
        real(real64) :: mib = 0                         !! of array data, in all files
        real(real64), allocatable :: instance_mib(:)    !! of each instance
        real(real64), allocatable :: instance_window(:) !! of each, seconds from open to close
    contains
        procedure :: has_rate
        procedure :: rate => rate_of
        procedure :: seconds => seconds_of
        procedure :: find_shortest
    end type timing

contains

    !> Puts the times of all ranks together. Collective.
    !>
    !> A rank needs room for its own times alone, and rank 0 for those of each instance.
    subroutine summarise(times, share, plan, summary, bytes)
        type(stopwatch), intent(in) :: times            !! of this rank
        type(file_share), intent(in) :: share           !! what it timed
        type(ownership), intent(in) :: plan
        type(timing), intent(out) :: summary            !! of instances on rank 0 alone
        integer(int64), intent(in), optional :: bytes   !! that it moved, if that is no array

        integer, parameter :: columns = phases + parts
        real(real64) :: zero(phases)                    ! of this rank's node
        real(real64) :: edges(phases, 2)                ! -begin and end since then, for a maximum
        real(real64) :: file_windows(phases), seconds(columns)
        real(real64) :: most(5*phases + parts), sums(2*columns + 1), slowest(2, columns)
        logical :: takes_part(columns)
        integer :: i

        call MPI_Allreduce(times%zero, zero, phases, MPI_DOUBLE_PRECISION, MPI_MIN, &
            plan%nodes%on_node)
        takes_part = [times%begun >= 0, times%part_seconds > 0]
        seconds = merge([times%ended - times%begun, times%part_seconds], 0.0_real64, takes_part)
        edges(:, 1) = merge(zero - times%begun, absent, takes_part(:phases))
        edges(:, 2) = merge(times%ended - zero, absent, takes_part(:phases))
        summary%mib = real(share%block%bytes(), real64)/2_int64**20
        if (present(bytes)) summary%mib = real(bytes, real64)/2_int64**20
        call compare_nodes(summary%mib, edges([phase_write, phase_read, phase_sync], :), &
            plan, summary%of_nodes)
        call add_instances(edges(phase_total, :), plan, summary)

        most = [edges, absent*[(1, i=1, 2*phases)], merge(-seconds, absent, takes_part)]
        if (plan%rank == 0) most(3*phases + 1:4*phases) = merge(times%agreed - zero, absent, &
            times%agreed >= 0)
        sums = [seconds, merge(1.0_real64, 0.0_real64, takes_part), summary%mib]
        slowest(1, :) = merge(seconds, absent, takes_part)
        slowest(2, :) = plan%rank
        call MPI_Allreduce(MPI_IN_PLACE, edges, size(edges), MPI_DOUBLE_PRECISION, MPI_MAX, &
            share%ranks)
        most(2*phases + 1:3*phases) = sum(edges, 2)     ! windows of this rank's file
        call MPI_Allreduce(MPI_IN_PLACE, most, size(most), MPI_DOUBLE_PRECISION, MPI_MAX, &
            plan%comm)
        call MPI_Allreduce(MPI_IN_PLACE, sums, size(sums), MPI_DOUBLE_PRECISION, MPI_SUM, &
            plan%comm)
        call MPI_Allreduce(MPI_IN_PLACE, slowest, columns, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, &
            plan%comm)

        edges = reshape(most(:2*phases), shape(edges))
        file_windows = most(2*phases + 1:3*phases)
        summary%mib = sums(size(sums))
        do i = 1, phases
            summary%of_phase(i) = over_ranks(i)
            if (.not. summary%of_phase(i)%occurs) cycle
            associate (phase => summary%of_phase(i), by_ranks => sum(edges(i, :)), &
                by_rank_0 => most(3*phases + i))
                phase%file_window = file_windows(i)
                phase%window = by_ranks
                if (by_rank_0 < 0) cycle                ! it is no operation
                phase%by_ranks = by_ranks
                phase%by_rank_0 = by_rank_0
                if (plan%nodes%nodes == 1) cycle        ! which has one clock, and needs no other
                phase%window = max(by_ranks, by_rank_0)
                summary%clocks_agree = summary%clocks_agree &
                    .and. abs(by_rank_0 - by_ranks) <= clocks_apart*phase%window
            end associate
        end do
        do i = 1, parts
            summary%of_part(i) = over_ranks(phases + i)
        end do
        ! Names are no bytes of nodes, though they are synced and read.
        if (.not. summary%of_phase(phase_total)%occurs) summary%of_nodes = node_spread()
        call add_up(summary%of_phase, edges, phase_total, phase_close)
        call add_up(summary%of_phase, edges, phase_stable, phase_sync)

    contains

        !> Seconds of a column over the ranks that take part.
        pure type(phase_time) function over_ranks(column) result(brief)
            integer, intent(in) :: column

            brief%occurs = sums(columns + column) > 0
            if (.not. brief%occurs) return
            brief%min = -most(4*phases + column)
            brief%mean = sums(column)/sums(columns + column)
            brief%max = slowest(1, column)
            brief%slowest_rank = nint(slowest(2, column))
        end function over_ranks

    end subroutine summarise

    !> Says what a span has between its phases, which begin in their order on every rank: the window
    !> of the span is those of its phases and `between`, less `overlap`.
    pure subroutine add_up(of_phase, edges, span, last)
        type(phase_time), intent(inout) :: of_phase(phases)
        real(real64), intent(in) :: edges(phases, 2)    !! -begin and end of each
        integer, intent(in) :: span
        integer, intent(in) :: last                     !! phase; the first is open

        real(real64) :: covered, until
        integer :: i

        if (.not. of_phase(span)%occurs) return
        covered = 0
        until = absent
        do i = phase_open, last
            if (.not. of_phase(i)%occurs) cycle
            covered = covered + max(0.0_real64, edges(i, 2) - max(-edges(i, 1), until))
            until = max(until, edges(i, 2))
        end do
        of_phase(span)%between = max(0.0_real64, of_phase(span)%window - covered)
        of_phase(span)%overlap = max(0.0_real64, sum(of_phase(phase_open:last)%window, &
            of_phase(phase_open:last)%occurs) - covered)
    end subroutine add_up

    !> Adds the size (MiB) and the window of each instance, on rank 0. A rank that reads another
    !> instance's file counts in its group. Collective.
    subroutine add_instances(edges, plan, summary)
        real(real64), intent(in) :: edges(2)            !! of this rank's total
        type(ownership), intent(in) :: plan
        type(timing), intent(inout) :: summary

        real(real64) :: mib, of_instance(2)
        integer :: instances

        of_instance = edges
        call MPI_Allreduce(MPI_IN_PLACE, of_instance, 2, MPI_DOUBLE_PRECISION, MPI_MAX, &
            plan%instance)
        call MPI_Allreduce(summary%mib, mib, 1, MPI_DOUBLE_PRECISION, MPI_SUM, plan%instance)
        instances = 0
        if (plan%rank == 0) call MPI_Comm_size(plan%instance_leaders, instances)
        allocate (summary%instance_mib(instances), summary%instance_window(instances))
        if (plan%instance_leaders == MPI_COMM_NULL) return
        call MPI_Gather(mib, 1, MPI_DOUBLE_PRECISION, summary%instance_mib, 1, &
            MPI_DOUBLE_PRECISION, 0, plan%instance_leaders)
        call MPI_Gather(sum(of_instance), 1, MPI_DOUBLE_PRECISION, summary%instance_window, 1, &
            MPI_DOUBLE_PRECISION, 0, plan%instance_leaders)
    end subroutine add_instances

    !> Compares the nodes of all ranks, on rank 0. Collective. Another node is a message of a few
    !> numbers to rank 0, which has room for those of each.
    subroutine compare_nodes(mib, edges, plan, spreads)
        real(real64), intent(in) :: mib             !! that this rank has moved
        real(real64), intent(in) :: edges(3, 2)     !! -begin and end of write, read, sync; s
        type(ownership), intent(in) :: plan
        type(node_spread), intent(out) :: spreads(node_figures)

        real(real64) :: mine(node_figures), widest(3, 2)
        real(real64), allocatable :: all_nodes(:, :)
        integer :: i

        call MPI_Reduce(mib, mine(1), 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, plan%nodes%on_node)
        call MPI_Reduce(edges, widest, size(edges), MPI_DOUBLE_PRECISION, MPI_MAX, 0, &
            plan%nodes%on_node)
        if (.not. plan%nodes%is_leader) return
        mine(2:) = sum(widest, 2)
        allocate (all_nodes(node_figures, merge(plan%nodes%nodes, 0, plan%rank == 0)))
        call MPI_Gather(mine, node_figures, MPI_DOUBLE_PRECISION, all_nodes, node_figures, &
            MPI_DOUBLE_PRECISION, 0, plan%nodes%leaders)
        if (plan%rank > 0) return
        do i = 1, node_figures
            spreads(i) = spread_of(all_nodes(i, :))
        end do
    end subroutine compare_nodes

    !> Describes how one figure differs between nodes: the quantiles are values of nodes, those next
    !> to the parts 0, 1/4, 1/2, 3/4 and 1 of all that have one.
    pure function spread_of(values) result(spread)
        real(real64), intent(in) :: values(:)       !! of each node; less than 0: it has none
        type(node_spread) :: spread

        real(real64), allocatable :: ordered(:)
        integer :: i

        spread%nodes = count(values >= 0)
        if (spread%nodes == 0) return
        spread%least = minloc(values, 1, values >= 0)
        spread%most = maxloc(values, 1)
        ordered = sorted(pack(values, values >= 0))
        spread%quantiles = [(ordered(1 + nint((spread%nodes - 1)*i/4.0_real64)), i=0, 4)]
        if (size(values) <= most_listed) spread%each = max(values, -1.0_real64)
    end function spread_of

    !> Says whether a rate of bytes exists: only what was synced is stable, and names have none.
    pure logical function has_rate(self, rate)
        class(timing), intent(in) :: self
        integer, intent(in) :: rate

        has_rate = self%of_phase(phase_total)%occurs
        if (rate == rate_stable) has_rate = has_rate .and. self%of_phase(phase_stable)%occurs
    end function has_rate

    !> Computes MiB/s over all files: `data` by the window of write or read, `total` by that from
    !> open to close, `stable` by that from open to the end of the sync.
    pure real(real64) function rate_of(self, rate)
        class(timing), intent(in) :: self
        integer, intent(in) :: rate

        select case (rate)
        case (rate_data)
            rate_of = self%mib/(self%of_phase(phase_write)%window &
                + self%of_phase(phase_read)%window)
        case (rate_stable)
            rate_of = self%mib/self%of_phase(phase_stable)%window
        case default
            rate_of = self%mib/self%of_phase(phase_total)%window
        end select
    end function rate_of

    !> Returns the seconds from open to close; where there is no such span, those of all phases.
    pure real(real64) function seconds_of(self)
        class(timing), intent(in) :: self

        seconds_of = self%of_phase(phase_total)%window
        if (.not. self%of_phase(phase_total)%occurs) seconds_of = sum(self%of_phase%window)
    end function seconds_of

    !> Finds the shortest of the spans that rates are made of, seconds, and its name.
    pure subroutine find_shortest(self, seconds, name)
        class(timing), intent(in) :: self
        real(real64), intent(out) :: seconds
        character(:), allocatable, intent(out) :: name

        logical :: is_rated(phases)
        integer :: i

        is_rated = self%of_phase%operations > 0
        if (self%has_rate(rate_total)) then
            is_rated([phase_write, phase_read, phase_total, phase_stable]) = .true.
        end if
        is_rated = is_rated .and. self%of_phase%occurs
        i = minloc(self%of_phase%window, 1, is_rated)
        seconds = huge(seconds)
        name = ''
        if (i > 0) then
            seconds = self%of_phase(i)%window
            name = trim(phase_names(i))
        end if
        if (.not. self%has_rate(rate_total)) return
        if (minval(self%instance_window) >= seconds) return     ! of none it is the largest number
        seconds = minval(self%instance_window)
        name = 'an instance'
    end subroutine find_shortest

    !> Measures how far this rank's clock goes at once, in seconds. Where short steps make half of a
    !> moment, that is the least of them: the rest is of other processes, which took the processor.
    !> Else it is the mean step of the moment in which that is least. A clock that is not seen to
    !> move has the largest step that there is.
    real(real64) function step_of_clock() result(step)
        real(real64), parameter :: window = 1e-3_real64, longest = 0.5_real64, fine = 1e-5_real64
        integer, parameter :: most_readings = 20000000
        real(real64) :: begun, before, least, short, squares, start, this
        integer :: i

        step = huge(step)
        least = huge(least)
        short = 0
        squares = 0
        begun = now()
        start = begun
        before = begun
        do i = 1, most_readings
            this = now()
            if (this > before) least = min(least, this - before)
            if (this - before < fine) short = short + (this - before)
            squares = squares + (this - before)**2
            before = this
            if (this - start < window) cycle
            step = min(step, squares/(this - start))
            if (short > 0.5_real64*(this - start)) step = least
            if (short > 0.5_real64*(this - start) .or. this - begun > longest) return
            start = this
            short = 0
            squares = 0
        end do
    end function step_of_clock

end module benchio_phases
