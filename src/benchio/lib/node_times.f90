!> What each node has moved, and in which time: one client that is slow shows among the others.
!>
!> A node has one clock, so its window of a phase is exact: from the first of its ranks that begins
!> it to the last that ends it. Where ranks wait for each other inside a phase, as in collective
!> calls, all nodes take as long as the slowest; the sync is each node's alone.
module benchio_node_times
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi_f08, only: MPI_Comm_rank, MPI_DOUBLE_PRECISION, MPI_Gather, MPI_MAX, MPI_Reduce, MPI_SUM
    use benchio_nodes, only: node_view
    use benchio_statistics, only: sorted
    implicit none (type, external)
    private

    public :: compare_nodes, spread_of

    !> Figures of a node: MiB moved, and seconds of write, read and sync.
    integer, parameter, public :: node_figures = 4
    character(*), parameter, public :: node_figure_names(node_figures) = [character(5) :: &
        'mib', 'write', 'read', 'sync']

    !> Nodes that are listed one by one; of more only quantiles are.
    integer, parameter :: most_listed = 64

    real(real64), parameter :: not_known = -1

    !> One figure over the nodes.
    type, public :: node_spread
        integer :: nodes = 0                        !! that have it; 0: none
        real(real64), allocatable :: each(:)        !! of each node; less than 0: it has none
        real(real64) :: quantiles(5) = not_known    !! least, quarter, median, three quarters, most
        integer :: least = 0, most = 0              !! nodes that have those, from 1
    end type node_spread

contains

    !> Compares the nodes of all ranks, on rank 0. Collective. Another node is a message of a few
    !> numbers to rank 0, which has room for those of each.
    subroutine compare_nodes(mib, edges, nodes, spreads)
        real(real64), intent(in) :: mib             !! that this rank has moved
        real(real64), intent(in) :: edges(3, 2)     !! -begin and end of write, read, sync; s
        type(node_view), intent(in) :: nodes
        type(node_spread), intent(out) :: spreads(node_figures)

        real(real64) :: mine(node_figures), widest(3, 2)
        real(real64), allocatable :: all_nodes(:, :)
        integer :: i, rank

        call MPI_Reduce(mib, mine(1), 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, nodes%on_node)
        call MPI_Reduce(edges, widest, size(edges), MPI_DOUBLE_PRECISION, MPI_MAX, 0, nodes%on_node)
        if (.not. nodes%is_leader) return
        mine(2:) = sum(widest, 2)
        call MPI_Comm_rank(nodes%leaders, rank)
        allocate (all_nodes(node_figures, merge(nodes%nodes, 0, rank == 0)))
        call MPI_Gather(mine, node_figures, MPI_DOUBLE_PRECISION, all_nodes, node_figures, &
            MPI_DOUBLE_PRECISION, 0, nodes%leaders)
        if (rank > 0) return
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
        if (size(values) <= most_listed) spread%each = max(values, not_known)
    end function spread_of

end module benchio_node_times
