!> Which ranks share a file, and which part of its array each one has.
!>
!> Every file holds one whole array. Under weak scaling its extents are the local size times the
!> grid of the ranks that share it; under strong scaling the global array is cut along z into as
!> many slabs as there are files. In reading and witnessing a rank takes the place of its partner,
!> on another node if there is one, so that no node reads what it still has in memory.
module benchio_layout
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allgather, MPI_Bcast, MPI_Comm, MPI_COMM_SELF, MPI_Comm_dup, &
        MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Comm_split_type, &
        MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, MPI_INTEGER
    use benchio_decomposition, only: decomposition, element_bytes, fits_in_int64, new_decomposition
    use benchio_failure, only: agree, exit_usage, failure
    use benchio_options, only: options, plan_array
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: choose_partners, file_of_ranks, new_layout
    public :: partner_of_ranks, partner_on_node, plan_share, read_as, turned

    !> A rank's share of a file.
    type, public :: file_share
        integer :: file = 0                         !! its number over all instances, from 0
        integer :: instance = 0                     !! whose it is, from 0
        type(decomposition) :: block                !! the rank's part of the array
        type(MPI_Comm) :: ranks                     !! those that share the file
        type(MPI_Comm) :: io                        !! those that open it: the same, or the first
        integer :: position = 0                     !! of this rank among those that share it
        integer :: sharers = 1
        logical :: is_gathered = .false.            !! the first rank moves the data of all
        logical :: opens = .true.                   !! this rank is one of those that open it
        logical :: is_node_leader = .false.         !! the first rank that shares it on this node
    end type file_share

    type, public :: layout
        type(MPI_Comm) :: comm                      !! all ranks
        integer :: rank = 0, ranks = 1
        logical :: is_first_on_node = .true.        !! the lowest rank of its node
        integer, allocatable :: node(:)             !! of each rank, from 0
        integer, allocatable :: file(:)             !! that each rank writes, from 0
        integer :: files = 1                        !! of a backend in a round
        type(file_share) :: own                     !! what this rank writes
        type(file_share) :: partners                !! what it reads: its partner's share
        real(real64) :: other_node_fraction = 0     !! of all ranks: partner is on another node
    end type layout

contains

    !> Collective: who writes what. Usage errors come as a failure with exit status 2.
    subroutine new_layout(choice, comm, plan, error)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        type(layout), intent(out) :: plan
        type(failure), intent(inout) :: error

        character(:), allocatable :: message

        plan%comm = comm
        call MPI_Comm_rank(comm, plan%rank)
        call MPI_Comm_size(comm, plan%ranks)
        plan%node = node_of_ranks(comm)
        associate (node => plan%node, rank => plan%rank)
            plan%is_first_on_node = .not. any(node(:rank) == node(rank + 1))
            if (allocated(choice%existing_extents)) then
                call reader_of_files(size(choice%existing_extents, 2), size(node), plan%file, &
                    message)
            else
                call file_of_ranks(choice%files, choice%instances, node, plan%file, message)
            end if
            if (message == '') call plan_share(choice, plan%file, rank, plan%own, message)
        end associate
        if (message /= '') call error%set(exit_usage, '', '', message)
        call agree(error, comm)
        if (error%failed()) return
        plan%files = maxval(plan%file) + 1
        call connect(choice, plan%rank, comm, plan%own)
        plan%own%is_node_leader = is_first(plan%file, plan%node, plan%rank)
    end subroutine new_layout

    !> Collective: who reads what. A file on storage of a node's own can only be read there.
    subroutine choose_partners(choice, is_node_local, plan)
        type(options), intent(in) :: choice
        logical, intent(in) :: is_node_local
        type(layout), intent(inout) :: plan

        integer, allocatable :: partner(:)              ! of each rank
        integer :: i

        if (is_node_local) then
            partner = partner_on_node(plan%node)
        else
            partner = partner_of_ranks(plan%node)
        end if
        call read_as(choice, partner, plan)
        plan%other_node_fraction = real(count([(plan%node(partner(i) + 1) /= plan%node(i), &
            i=1, plan%ranks)]), real64)/plan%ranks
    end subroutine choose_partners

    !> Collective: each rank is to read the share of its partner.
    subroutine read_as(choice, partner, plan)
        type(options), intent(in) :: choice
        integer, intent(in) :: partner(:)               !! of each rank: a rank, from 0
        type(layout), intent(inout) :: plan

        character(:), allocatable :: ignored
        integer, allocatable :: file(:)                 ! of each rank: its partner's
        integer :: i

        ! The partner has found its own share to be possible.
        call plan_share(choice, plan%file, partner(plan%rank + 1), plan%partners, ignored)
        call connect(choice, partner(plan%rank + 1), plan%comm, plan%partners)
        file = [(plan%file(partner(i) + 1), i=1, plan%ranks)]
        plan%partners%is_node_leader = is_first(file, plan%node, plan%rank)
    end subroutine read_as

    !> Collective: which node each rank is on, as an index from 0 in order of the lowest rank.
    function node_of_ranks(comm) result(node)
        type(MPI_Comm), intent(in) :: comm
        integer, allocatable :: node(:)

        type(MPI_Comm) :: on_node
        integer, allocatable :: leader(:)
        integer :: i, lowest, nodes, rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        call MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, on_node)
        lowest = rank
        call MPI_Bcast(lowest, 1, MPI_INTEGER, 0, on_node)
        call MPI_Comm_free(on_node)
        allocate (leader(ranks), node(ranks))
        call MPI_Allgather(lowest, 1, MPI_INTEGER, leader, 1, MPI_INTEGER, comm)
        nodes = 0
        do i = 1, ranks     ! a node's leader is the lowest of its ranks, and comes first
            if (leader(i) == i - 1) then
                node(i) = nodes
                nodes = nodes + 1
            else
                node(i) = node(leader(i) + 1)
            end if
        end do
    end function node_of_ranks

    !> The file of each rank, from 0; error is empty or one sentence.
    subroutine file_of_ranks(files, instances, node, file, error)
        character(*), intent(in) :: files           !! as given to --files
        integer, intent(in) :: instances
        integer, intent(in) :: node(:)              !! of each rank, from 0
        integer, allocatable, intent(out) :: file(:)
        character(:), allocatable, intent(out) :: error

        integer, allocatable :: of_node(:)          ! the file that a node's ranks share, or -1
        integer :: groups, i, next, ranks, team

        error = ''
        ranks = size(node)
        allocate (file(ranks), source=0)
        if (mod(ranks, instances) /= 0) then
            error = '--instances '//decimal(instances)//' does not divide '//decimal(ranks) &
                //' writers'
            return
        end if
        team = ranks/instances
        select case (files)
        case ('process')
            file = [(i, i=0, ranks - 1)]
        case ('node')
            allocate (of_node(0:maxval(node)))
            next = 0
            do i = 1, ranks
                ! A node that two instances share has a file of each.
                if (mod(i - 1, team) == 0) of_node = -1
                if (of_node(node(i)) < 0) then
                    of_node(node(i)) = next
                    next = next + 1
                end if
                file(i) = of_node(node(i))
            end do
        case ('shared', 'gather')
            file = [((i - 1)/team, i=1, ranks)]
        case default
            read (files, *) groups
            if (groups > team .or. mod(team, max(1, groups)) /= 0) then
                error = '--files '//files//' does not divide '//decimal(team)//' writers'
                return
            end if
            file = [((i - 1)/(team/groups), i=1, ranks)]
        end select
    end subroutine file_of_ranks

    !> The file that each rank reads of those that are there, from 0: neighbours share one. The
    !> error is empty or one sentence.
    pure subroutine reader_of_files(files, ranks, file, error)
        integer, intent(in) :: files, ranks
        integer, allocatable, intent(out) :: file(:)
        character(:), allocatable, intent(out) :: error

        integer :: i

        error = ''
        file = [(int(int(i, int64)*files/ranks), i=0, ranks - 1)]
        if (files > ranks) error = decimal(files)//' files were kept, and '//decimal(ranks) &
            //' ranks are too few to read them: each rank reads one'
    end subroutine reader_of_files

    !> The rank whose share each rank reads: as many as can be are on another node.
    !>
    !> The ranks in order of their nodes, rotated by the ranks of the largest node; by one where
    !> there is a single node.
    pure function partner_of_ranks(node) result(partner)
        integer, intent(in) :: node(:)              !! of each rank, from 0
        integer :: partner(size(node))              !! a rank, from 0

        integer :: shift
        integer :: i

        shift = maxval([(count(node == i), i=0, maxval(node))])
        if (shift == size(node)) shift = 1
        partner = turned(node, shift)
    end function partner_of_ranks

    !> The rank that is so many places further in the order of nodes, of each rank.
    pure function turned(node, shift) result(partner)
        integer, intent(in) :: node(:)              !! of each rank, from 0
        integer, intent(in) :: shift
        integer :: partner(size(node))              !! a rank, from 0

        integer :: at(0:maxval(node) + 1), i, order(0:size(node) - 1), ranks

        ranks = size(node)
        at = 0
        do i = 1, ranks
            at(node(i) + 1) = at(node(i) + 1) + 1
        end do
        do i = 1, ubound(at, 1)     ! from the ranks of each node to those of all before it
            at(i) = at(i) + at(i - 1)
        end do
        do i = 1, ranks
            order(at(node(i))) = i - 1
            at(node(i)) = at(node(i)) + 1
        end do
        do i = 0, ranks - 1
            partner(order(i) + 1) = order(mod(i + shift, ranks))
        end do
    end function turned

    !> The next rank on the same node, and the first for the last.
    pure function partner_on_node(node) result(partner)
        integer, intent(in) :: node(:)              !! of each rank, from 0
        integer :: partner(size(node))              !! a rank, from 0

        integer :: i, last(0:maxval(node)), next(0:maxval(node))

        next = -1
        do i = size(node), 1, -1
            partner(i) = next(node(i))
            if (next(node(i)) < 0) last(node(i)) = i
            next(node(i)) = i - 1
        end do
        do i = 0, maxval(node)      ! the last rank of a node has found no next one
            partner(last(i)) = next(i)
        end do
    end function partner_on_node

    !> The file and block of the rank with this number, 0 <= rank; error is empty or one sentence.
    subroutine plan_share(choice, file, rank, share, error)
        type(options), intent(in) :: choice
        integer, intent(in) :: file(:)              !! of each rank
        integer, intent(in) :: rank
        type(file_share), intent(out) :: share
        character(:), allocatable, intent(out) :: error

        type(options) :: mine
        integer(int64) :: slab, slabs
        integer :: first, team

        team = size(file)/choice%instances
        share%instance = rank/team
        share%file = file(rank + 1)
        share%sharers = count(file == share%file)
        mine = choice
        if (allocated(choice%existing_extents)) then
            mine%local_size = 0
            mine%global_size = choice%existing_extents(:, share%file + 1)
        else if (all(choice%global_size > 0)) then
            first = share%instance*team
            associate (files => file(first + 1:first + team))
                slab = share%file - minval(files)
                slabs = maxval(files) - minval(files) + 1
            end associate
            if (slabs > choice%global_size(3)) then
                error = 'more files ('//decimal(slabs)//') than planes of '// &
                    extents(choice%global_size)//' elements along z'
                return
            end if
            mine%global_size(3) = (slab + 1)*choice%global_size(3)/slabs &
                - slab*choice%global_size(3)/slabs
        end if
        call plan_array(mine, int(share%sharers, int64), error)
        if (error /= '') return
        if (.not. fits_in_int64([mine%global_size, int(element_bytes, int64), &
            maxval(file) + 1_int64])) then
            error = 'all files together are more bytes than 2^63 - 1'
            return
        end if
        share%block = new_decomposition(mine%global_size, mine%grid, &
            count(file(:rank) == share%file, kind=int64), choice%halo, &
            choice%settings%access%layers())
    end subroutine plan_share

    !> Collective: the communicators of a share; this rank takes the place of the given one.
    subroutine connect(choice, rank, comm, share)
        type(options), intent(in) :: choice
        integer, intent(in) :: rank
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        type(file_share), intent(inout) :: share

        call MPI_Comm_split(comm, share%file, rank, share%ranks)
        call MPI_Comm_rank(share%ranks, share%position)
        share%is_gathered = choice%files == 'gather'
        share%opens = .not. share%is_gathered .or. share%position == 0
        if (share%is_gathered) then
            call MPI_Comm_dup(MPI_COMM_SELF, share%io)
        else
            call MPI_Comm_dup(share%ranks, share%io)
        end if
    end subroutine connect

    !> Whether no lower rank works on the same file on the same node.
    pure logical function is_first(file, node, rank)
        integer, intent(in) :: file(:), node(:)     !! of each rank
        integer, intent(in) :: rank

        is_first = .not. any(file(:rank) == file(rank + 1) .and. node(:rank) == node(rank + 1))
    end function is_first

end module benchio_layout
