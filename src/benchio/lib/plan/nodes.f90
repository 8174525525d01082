!> The nodes of a run: which ranks share one, and what their hosts are called.
!>
!> A node is a host that runs one kernel, with one page cache and one clock. An MPI may keep ranks
!> of one host from sharing memory, so that MPI_COMM_TYPE_SHARED has fewer of them.
!>
!> No rank holds a map of all ranks. A rank knows its node, and its place in the order of nodes; the
!> first rank of each node can talk to those of the others; rank 0 has one entry a node.
module benchio_nodes
    use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_null_char
    use mpi_f08, only: MPI_Allgather, MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, &
        MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Exscan, MPI_Gather, &
        MPI_Gatherv, MPI_Get_processor_name, MPI_INTEGER, MPI_MAX, MPI_MAX_PROCESSOR_NAME, &
        MPI_SUM, MPI_UNDEFINED
    implicit none (type, external)
    private

    public :: find_nodes, host_length, list_nodes, new_runs, numbers_of, runs_of

    integer, parameter :: host_length = 256

    !> The ranks first, first + step, first + 2*step, ..., so many.
    type, public :: rank_run
        integer :: first = 0
        integer :: step = 1
        integer :: count = 0
    contains
        procedure :: has
    end type rank_run

    !> The nodes as this rank sees them.
    type, public :: node_view
        type(MPI_Comm) :: on_node                   !! the ranks of this node, in their order
        type(MPI_Comm) :: leaders                   !! the first rank of each node; else null
        type(MPI_Comm) :: in_order                  !! all ranks, those of a node side by side
        integer :: position = 0                     !! this rank's place in that order
        integer :: nodes = 1
        integer :: largest = 1                      !! ranks of the node that has most
        logical :: is_leader = .true.               !! the lowest rank of its node
        type(rank_run), allocatable :: ranks(:)     !! the ranks of this node
    end type node_view

    !> All nodes, in the order of their lowest ranks; on rank 0.
    type, public :: node_list
        character(host_length), allocatable :: hosts(:) !! the host of each node
        type(rank_run), allocatable :: runs(:)          !! ranks; each run is of one node
        integer, allocatable :: node(:)                 !! the node of each run, from 1
    contains
        procedure :: host_of
    end type node_list

    interface
        !> Numbers of a host that hardly another host has both of; not less than 0.
        subroutine c_host_numbers(name, numbers) bind(C, name='benchio_host_numbers')
            import :: c_char, c_int32_t
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), intent(out) :: numbers(2)
        end subroutine c_host_numbers
    end interface

contains

    !> Looks at the nodes of all ranks. Every rank sends a few numbers. Collective.
    subroutine find_nodes(comm, view)
        type(MPI_Comm), intent(in) :: comm              !! all ranks
        type(node_view), intent(out) :: view

        type(MPI_Comm) :: alike
        character(MPI_MAX_PROCESSOR_NAME) :: name
        integer, allocatable :: ranks(:)
        integer :: before, length, number, on_node, rank
        integer(c_int32_t) :: numbers(2)

        call MPI_Comm_rank(comm, rank)
        call MPI_Get_processor_name(name, length)
        call c_host_numbers(name(:length)//c_null_char, numbers)
        call MPI_Comm_split(comm, int(numbers(1)), rank, alike)
        call MPI_Comm_split(alike, int(numbers(2)), rank, view%on_node)
        call MPI_Comm_free(alike)
        call MPI_Comm_rank(view%on_node, number)
        call MPI_Comm_size(view%on_node, on_node)
        view%is_leader = number == 0
        call MPI_Comm_split(comm, merge(0, MPI_UNDEFINED, view%is_leader), rank, view%leaders)
        before = 0
        if (view%is_leader) then
            call MPI_Exscan(on_node, before, 1, MPI_INTEGER, MPI_SUM, view%leaders)
            if (rank == 0) before = 0                   ! MPI leaves it undefined there
            call MPI_Comm_size(view%leaders, view%nodes)
            call MPI_Allreduce(on_node, view%largest, 1, MPI_INTEGER, MPI_MAX, view%leaders)
        end if
        call MPI_Bcast(before, 1, MPI_INTEGER, 0, view%on_node)
        call MPI_Bcast(view%nodes, 1, MPI_INTEGER, 0, view%on_node)
        call MPI_Bcast(view%largest, 1, MPI_INTEGER, 0, view%on_node)
        view%position = before + number
        call MPI_Comm_split(comm, 0, view%position, view%in_order)

        allocate (ranks(on_node))
        call MPI_Allgather(rank, 1, MPI_INTEGER, ranks, 1, MPI_INTEGER, view%on_node)
        view%ranks = new_runs(ranks)
    end subroutine find_nodes

    !> Lists the nodes and their hosts on rank 0, as the first ranks of nodes tell them. Collective.
    subroutine list_nodes(view, list)
        type(node_view), intent(in) :: view
        type(node_list), intent(out) :: list

        character(MPI_MAX_PROCESSOR_NAME) :: name
        character(host_length) :: host
        integer, allocatable :: all(:), counts(:), mine(:), starts(:)
        integer :: at, i, length, rank

        if (.not. view%is_leader) return
        call MPI_Comm_rank(view%leaders, rank)
        call MPI_Get_processor_name(name, length)
        host = name(:length)
        allocate (list%hosts(merge(view%nodes, 0, rank == 0)), counts(size(list%hosts)), &
            starts(size(list%hosts)))
        call MPI_Gather(host, host_length, MPI_CHARACTER, list%hosts, host_length, MPI_CHARACTER, &
            0, view%leaders)
        mine = numbers_of(view%ranks)
        call MPI_Gather(size(mine), 1, MPI_INTEGER, counts, 1, MPI_INTEGER, 0, view%leaders)
        at = 0
        do i = 1, size(counts)
            starts(i) = at
            at = at + counts(i)
        end do
        allocate (all(at), source=0)    ! or gfortran 16 takes what MPI receives for unset
        call MPI_Gatherv(mine, size(mine), MPI_INTEGER, all, counts, starts, MPI_INTEGER, 0, &
            view%leaders)
        list%runs = runs_of(all)
        allocate (list%node(size(list%runs)))
        do i = 1, size(counts)
            list%node(starts(i)/3 + 1:(starts(i) + counts(i))/3) = i
        end do
    end subroutine list_nodes

    !> Ascending ranks as few runs: one where all have the same distance, as where ranks are dealt
    !> out to nodes in blocks or in turn.
    pure function new_runs(ranks) result(runs)
        integer, intent(in) :: ranks(:)                 !! ascending
        type(rank_run), allocatable :: runs(:)

        type(rank_run), allocatable :: made(:)
        integer :: at, number, step

        allocate (made(size(ranks)))
        number = 0
        do at = 1, size(ranks)
            if (number > 0) then
                associate (run => made(number))
                    step = ranks(at) - run%first - run%step*(run%count - 1)
                    if (run%count == 1) run%step = step
                    if (step == run%step) then
                        run%count = run%count + 1
                        cycle
                    end if
                end associate
            end if
            number = number + 1
            made(number) = rank_run(ranks(at), 1, 1)
        end do
        runs = made(:number)
    end function new_runs

    !> Whether a rank is in the run.
    elemental logical function has(self, rank)
        class(rank_run), intent(in) :: self
        integer, intent(in) :: rank

        has = rank >= self%first .and. rank <= self%first + self%step*(self%count - 1)
        if (has) has = mod(rank - self%first, self%step) == 0
    end function has

    !> The runs as numbers, three of each, for a message.
    pure function numbers_of(runs) result(numbers)
        type(rank_run), intent(in) :: runs(:)
        integer, allocatable :: numbers(:)

        integer :: i

        numbers = [(runs(i)%first, runs(i)%step, runs(i)%count, i=1, size(runs))]
    end function numbers_of

    pure function runs_of(numbers) result(runs)
        integer, intent(in) :: numbers(:)
        type(rank_run), allocatable :: runs(:)

        integer :: i

        runs = [(rank_run(numbers(i), numbers(i + 1), numbers(i + 2)), i=1, size(numbers), 3)]
    end function runs_of

    !> The host that a rank runs on; empty if no node has it.
    pure function host_of(self, rank) result(host)
        class(node_list), intent(in) :: self
        integer, intent(in) :: rank
        character(:), allocatable :: host

        integer :: i

        host = ''
        do i = 1, size(self%runs)
            if (.not. self%runs(i)%has(rank)) cycle
            host = trim(self%hosts(self%node(i)))
            return
        end do
    end function host_of

end module benchio_nodes
