!> Which ranks share a file, which part of its array each rank has, and which part each rank reads.
!>
!> Every file holds one whole array. Under weak scaling its extents are the local size times the
!> grid of the ranks that share it; under strong scaling the global array is cut along z into as
!> many slabs as there are files. In reading and witnessing a rank takes the place of its partner,
!> half of all ranks further in the order of nodes, so that no node reads what it still has in
!> memory. No rank knows the share of any other but its partner's.
module benchio_ownership
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_Comm, MPI_COMM_SELF, MPI_Comm_dup, &
        MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Exscan, MPI_Get_count, &
        MPI_IN_PLACE, MPI_INT64_T, MPI_INTEGER, MPI_Isend, MPI_LOGICAL, MPI_LOR, MPI_MIN, &
        MPI_Probe, MPI_Recv, MPI_Request, MPI_Sendrecv, MPI_Status, MPI_STATUS_IGNORE, MPI_SUM, &
        MPI_UNDEFINED, MPI_Wait
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: decomposition, fits_in_int64, new_decomposition
    use benchio_failure, only: agree, exit_usage, failure
    use benchio_nodes, only: node_view, numbers_of, runs_of
    use benchio_options, only: options, plan_array
    use benchio_text, only: decimal, extents
    use benchio_written_part, only: written_part
    implicit none (type, external)
    private

    public :: bytes_here, choose_partners, count_groups, half_turn, new_ownership, plan_block
    public :: read_turned, second_readers

    !> A slice of a file whose reader is on the node that has written some of it.
    type, public :: left_slice
        integer :: position = 0                     !! of that reader among those of the file
        type(written_part) :: part                  !! what the node of that reader has written
    end type left_slice

    !> A rank's share of a file.
    type, public :: file_share
        integer :: file = 0                         !! its number over all instances, from 0
        integer :: instance = 0                     !! whose it is, from 0
        type(decomposition) :: block                !! the rank's part of the array
        type(MPI_Comm) :: ranks                     !! those that share the file
        type(MPI_Comm) :: neighbours                !! those that share it on this node
        integer :: position = 0                     !! of this rank among those that share it
        integer :: sharers = 1
        logical :: is_gathered = .false.            !! the first rank moves the data of all
        logical :: opens = .true.                   !! this rank is one of those that open it
        logical :: syncs = .false.                  !! it forces what its node has written
        logical :: is_node_leader = .false.         !! the first rank that shares it on this node
        type(written_part) :: here                  !! what this node has written of the file
        !> Another rank confirms what this node has written of this rank's slice.
        logical :: hands_over = .false.
        type(left_slice), allocatable :: left(:)    !! slices of which this rank does that
    contains
        procedure :: slice
    end type file_share

    type, public :: ownership
        type(MPI_Comm) :: comm                      !! all ranks
        integer :: rank = 0, ranks = 1
        type(node_view) :: nodes                    !! found before the rest
        type(MPI_Comm) :: instance                  !! the ranks of this rank's instance
        type(MPI_Comm) :: instance_leaders          !! the first rank of each; else null
        integer :: files = 1                        !! of a backend in a round
        type(file_share) :: write_share             !! what this rank writes
        type(file_share) :: read_share              !! what it reads: its partner's share
        real(real64) :: other_node_byte_fraction = 0    !! of what is read: another node wrote it
    end type ownership

    integer, parameter :: tag = 1
    integer, parameter :: share_numbers = 14

contains

    !> Finds out who writes what. Usage errors come as a failure with exit status 2. Collective.
    subroutine new_ownership(choice, comm, plan, error)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        type(ownership), intent(inout) :: plan             !! with its nodes
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer :: extremes(2), groups, number

        plan%comm = comm
        call MPI_Comm_rank(comm, plan%rank)
        call MPI_Comm_size(comm, plan%ranks)
        call count_groups(choice, plan%ranks, groups, message)
        if (message /= '') call error%set(exit_usage, '', '', message)
        call agree(error, comm)
        if (error%failed()) return

        associate (share => plan%write_share)
            share%instance = plan%rank/(plan%ranks/choice%instances)
            if (groups > 0) then
                number = int(int(plan%rank, int64)*groups*choice%instances/plan%ranks)
                call join(choice, comm, number, plan%rank, share)
            else
                call MPI_Comm_split(plan%nodes%on_node, share%instance, plan%rank, share%ranks)
            end if
            call know_sharers(choice, share)

            ! Files are numbered in the order of their first ranks.
            number = merge(1, 0, share%position == 0)
            call MPI_Allreduce(number, plan%files, 1, MPI_INTEGER, MPI_SUM, comm)
            call MPI_Exscan(number, share%file, 1, MPI_INTEGER, MPI_SUM, comm)
            if (plan%rank == 0) share%file = 0          ! MPI leaves it undefined there
            call MPI_Bcast(share%file, 1, MPI_INTEGER, 0, share%ranks)
            share%here%first = plan%rank
            call MPI_Bcast(share%here%first, 1, MPI_INTEGER, 0, share%ranks)

            call MPI_Comm_split(comm, share%instance, plan%rank, plan%instance)
            call MPI_Comm_rank(plan%instance, number)
            call MPI_Comm_split(comm, merge(0, MPI_UNDEFINED, number == 0), plan%rank, &
                plan%instance_leaders)
            extremes = [share%file, -share%file]
            call MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INTEGER, MPI_MIN, plan%instance)
            call plan_block(choice, share%file - extremes(1), 1 - sum(extremes), plan%files, &
                share%sharers, share%position, share%block, message)
            share%here%ranks = plan%nodes%ranks
            share%here%has_one_writer = choice%files == 'gather' .or. choice%files == 'node'
            share%here%array = share%block
        end associate
        if (message /= '') call error%set(exit_usage, '', '', message)
        call agree(error, comm)
        if (error%failed()) return
        call find_node_leaders(plan%nodes, plan%write_share)
    end subroutine new_ownership

    !> Counts the files of an instance, or those that are there already; 0 if each node has one. The
    !> error is empty or one sentence.
    pure subroutine count_groups(choice, ranks, groups, error)
        type(options), intent(in) :: choice
        integer, intent(in) :: ranks
        integer, intent(out) :: groups
        character(:), allocatable, intent(out) :: error

        integer :: team

        error = ''
        groups = choice%existing_files
        if (groups > ranks) error = decimal(groups)//' files were kept, and ' &
            //decimal(ranks)//' ranks are too few to read them: each rank reads one'
        if (groups > 0) return
        if (mod(ranks, choice%instances) /= 0) then
            error = '--instances '//decimal(choice%instances)//' does not divide ' &
                //decimal(ranks)//' ranks'
            return
        end if
        team = ranks/choice%instances
        select case (choice%files)
        case ('process')
            groups = team
        case ('node')
            groups = 0
        case ('shared', 'gather')
            groups = 1
        case default
            read (choice%files, *) groups
            if (groups > team .or. mod(team, max(1, groups)) /= 0) error = '--files ' &
                //choice%files//' does not divide '//decimal(team)//' ranks'
        end select
    end subroutine count_groups

    !> Plans the block of one of the ranks that share a file; the error is empty or one sentence.
    subroutine plan_block(choice, slab, slabs, files, sharers, position, block, error)
        type(options), intent(in) :: choice
        integer, intent(in) :: slab, slabs              !! file of its instance, from 0, of so many
        integer, intent(in) :: files                    !! of all instances
        integer, intent(in) :: sharers, position        !! ranks of the file, and which, from 0
        type(decomposition), intent(out) :: block
        character(:), allocatable, intent(out) :: error

        type(options) :: mine

        mine = choice
        if (choice%existing_files > 0) then
            mine%local_size = 0
            mine%global_size = choice%existing_extents
        else if (all(choice%global_size > 0)) then
            if (slabs > choice%global_size(3)) then
                error = 'more files ('//decimal(slabs)//') than planes of '// &
                    extents(choice%global_size)//' elements along z'
                return
            end if
            mine%global_size(3) = (slab + 1_int64)*choice%global_size(3)/slabs &
                - slab*choice%global_size(3)/slabs
        end if
        call plan_array(mine, int(sharers, int64), error)
        if (error /= '') return
        if (.not. fits_in_int64([mine%global_size, int(element_bytes, int64), &
            int(files, int64)])) then
            error = 'all files together are more bytes than 2^63 - 1'
            return
        end if
        block = new_decomposition(mine%global_size, mine%grid, int(position, int64), choice%halo, &
            choice%settings%access%layers())
    end subroutine plan_block

    !> Has the ranks of each file meet, in the order of their places. Collective.
    subroutine join(choice, comm, file, place, share)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm              !! all ranks
        integer, intent(in) :: file, place
        type(file_share), intent(inout) :: share

        if (choice%files == 'process' .and. choice%existing_files == 0) then
            call MPI_Comm_dup(MPI_COMM_SELF, share%ranks)
        else
            call MPI_Comm_split(comm, file, place, share%ranks)
        end if
    end subroutine join

    !> Says who shares a file, and which of the ranks open it. Collective over the ranks of a file.
    subroutine know_sharers(choice, share)
        type(options), intent(in) :: choice
        type(file_share), intent(inout) :: share

        call MPI_Comm_rank(share%ranks, share%position)
        call MPI_Comm_size(share%ranks, share%sharers)
        share%is_gathered = choice%files == 'gather'
        share%opens = .not. share%is_gathered .or. share%position == 0
        allocate (share%left(0))
    end subroutine know_sharers

    !> Has the ranks of a node meet that share a file, in the order of nodes. Collective.
    subroutine find_node_leaders(nodes, share)
        type(node_view), intent(in) :: nodes
        type(file_share), intent(inout) :: share

        integer :: number

        call MPI_Comm_split(nodes%on_node, share%file, nodes%position, share%neighbours)
        call MPI_Comm_rank(share%neighbours, number)
        share%is_node_leader = number == 0
        share%syncs = merge(share%opens, share%is_node_leader, share%is_gathered)
    end subroutine find_node_leaders

    !> Finds out who reads what. A file on storage of a node's own can only be read there.
    !> Collective.
    subroutine choose_partners(choice, is_node_local, plan)
        type(options), intent(in) :: choice
        logical, intent(in) :: is_node_local
        type(ownership), intent(inout) :: plan

        if (is_node_local) then
            call read_turned(choice, plan%nodes%on_node, 1, plan)
        else
            call read_turned(choice, plan%nodes%in_order, half_turn(plan%ranks), plan)
        end if
    end subroutine choose_partners

    !> How many places further a partner is, so that as many ranks as can be have one on another
    !> node: half of all. No rank of a node with at most half of them has one on its node; of a
    !> larger node no turn leaves fewer.
    pure integer function half_turn(ranks)
        integer, intent(in) :: ranks

        half_turn = ranks/2
    end function half_turn

    !> Has each rank read the share of the rank so many places further. Collective over all ranks.
    subroutine read_turned(choice, comm, shift, plan)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm              !! all ranks of nodes, or of this node
        integer, intent(in) :: shift
        type(ownership), intent(inout) :: plan

        integer(int64) :: bytes(2)

        associate (share => plan%read_share)
            share = turned_share(choice, comm, shift, plan%write_share)
            call join(choice, plan%comm, share%file, share%position, share)
            call know_sharers(choice, share)
            call find_node_leaders(plan%nodes, share)
            call hand_over(plan%nodes, share)
            bytes = [share%here%bytes_in_block(share%block), share%block%bytes()]
        end associate
        call MPI_Allreduce(MPI_IN_PLACE, bytes, 2, MPI_INT64_T, MPI_SUM, plan%comm)
        plan%other_node_byte_fraction = real(bytes(2) - bytes(1), real64)/real(bytes(2), real64)
    end subroutine read_turned

    !> Counts the bytes that a rank would read, and its node has written, if it took the share of
    !> the rank so many places further. Collective over comm.
    integer(int64) function bytes_here(choice, comm, shift, plan) result(bytes)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        integer, intent(in) :: shift
        type(ownership), intent(in) :: plan

        type(file_share) :: share

        share = turned_share(choice, comm, shift, plan%write_share)
        bytes = share%here%bytes_in_block(share%block)
    end function bytes_here

    !> Asks for the share of the rank so many places further, without communicators. Collective over
    !> comm.
    type(file_share) function turned_share(choice, comm, shift, mine) result(share)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        integer, intent(in) :: shift
        type(file_share), intent(in) :: mine

        integer(int64) :: numbers(share_numbers), theirs(share_numbers)
        integer :: rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        numbers = [int([mine%file, mine%instance, mine%position, mine%sharers, mine%here%first], &
            int64), mine%block%global, mine%block%grid, mine%here%array%grid]
        call MPI_Sendrecv(numbers, share_numbers, MPI_INT64_T, modulo(rank - shift, ranks), tag, &
            theirs, share_numbers, MPI_INT64_T, modulo(rank + shift, ranks), tag, comm, &
            MPI_STATUS_IGNORE)
        share%file = int(theirs(1))
        share%instance = int(theirs(2))
        share%position = int(theirs(3))
        share%sharers = int(theirs(4))
        share%block = new_decomposition(theirs(6:8), theirs(9:11), theirs(3), choice%halo, &
            choice%settings%access%layers())
        share%here = mine%here
        share%here%first = int(theirs(5))
        share%here%array = share%block
        share%here%array%grid = theirs(12:14)
    end function turned_share

    !> Where the node of a slice's reader has written some of the slice, a rank on another node is
    !> told to confirm that, if the file has a reader there. Collective over the ranks of a file.
    subroutine hand_over(nodes, share)
        type(node_view), intent(in) :: nodes
        type(file_share), intent(inout) :: share

        integer, allocatable :: from(:), message(:), numbers(:)
        integer(int64) :: first, last
        integer :: bounds(2), i, length, on_node, place, to
        logical :: is_needed
        type(MPI_Comm) :: by_node
        type(MPI_Request) :: request
        type(MPI_Status) :: status

        call share%slice(share%position, first, last)
        call MPI_Allreduce(share%here%elements_in_run(first, last) > 0, is_needed, 1, MPI_LOGICAL, &
            MPI_LOR, share%ranks)
        if (.not. is_needed) return
        call MPI_Comm_split(share%ranks, 0, nodes%position, by_node)
        call MPI_Comm_rank(by_node, place)
        call MPI_Comm_rank(share%neighbours, i)
        call MPI_Comm_size(share%neighbours, on_node)
        ! The node with more than half of the ranks, if there is one, has places from the first
        ! bound to before the second.
        bounds = huge(bounds)
        if (2*on_node > share%sharers) bounds = [place - i, place - i + on_node]
        call MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INTEGER, MPI_MIN, by_node)
        call second_readers(place, share%sharers, bounds, to, from)
        share%hands_over = to >= 0
        if (share%hands_over) then
            message = [share%position, numbers_of(share%here%ranks)]
            call MPI_Isend(message, size(message), MPI_INTEGER, to, tag, by_node, request)
        end if
        deallocate (share%left)
        allocate (share%left(size(from)))
        do i = 1, size(from)
            call MPI_Probe(from(i), tag, by_node, status)
            call MPI_Get_count(status, MPI_INTEGER, length)
            allocate (numbers(length))
            call MPI_Recv(numbers, length, MPI_INTEGER, from(i), tag, by_node, MPI_STATUS_IGNORE)
            share%left(i)%position = numbers(1)
            share%left(i)%part = share%here
            share%left(i)%part%ranks = runs_of(numbers(2:))
            deallocate (numbers)
        end do
        if (share%hands_over) call MPI_Wait(request, MPI_STATUS_IGNORE)
        call MPI_Comm_free(by_node)
    end subroutine hand_over

    !> Finds the rank on another node that confirms for a rank what its node has written, and those
    !> for which this rank does so. Ranks are places, from 0, in the order of nodes.
    pure subroutine second_readers(place, ranks, bounds, to, from)
        integer, intent(in) :: place, ranks
        integer, intent(in) :: bounds(2)            !! of the node with more than half; huge: none
        integer, intent(out) :: to                  !! -1: all ranks are on one node
        integer, allocatable, intent(out) :: from(:)

        integer :: i, k, larger, smaller

        if (bounds(1) == huge(bounds)) then
            to = mod(place + ranks/2, ranks)
            from = [modulo(place - ranks/2, ranks)]
            return
        end if
        ! The ranks of the large node and all others are dealt out to each other.
        larger = bounds(2) - bounds(1)
        smaller = ranks - larger
        to = -1
        if (smaller == 0) then
            allocate (from(0))
        else if (place >= bounds(1) .and. place < bounds(2)) then
            i = place - bounds(1)
            to = elsewhere(mod(i, smaller))
            from = [elsewhere(i)]
            if (i >= smaller) from = [integer ::]
        else
            i = place
            if (place >= bounds(2)) i = place - larger
            to = bounds(1) + i
            from = [(bounds(1) + k, k=i, larger - 1, smaller)]
        end if

    contains

        !> The place of the rank with this number among those that are not on the large node.
        pure integer function elsewhere(number)
            integer, intent(in) :: number

            elsewhere = number
            if (number >= bounds(1)) elsewhere = number + larger
        end function elsewhere

    end subroutine second_readers

    !> The elements of the file that a rank confirms: contiguous, whatever the blocks are.
    pure subroutine slice(self, position, first, last)
        class(file_share), intent(in) :: self
        integer, intent(in) :: position             !! of the rank among those that share the file
        integer(int64), intent(out) :: first, last  !! indices from 0, and before `last`

        integer(int64) :: length, rest

        associate (elements => product(self%block%global))
            length = elements/self%sharers
            rest = mod(elements, int(self%sharers, int64))
            first = position*length + min(int(position, int64), rest)
            last = first + length
            if (position < rest) last = last + 1
        end associate
    end subroutine slice

end module benchio_ownership
