!> Which ranks share a file, and which part of its array each one owns.
!>
!> A layout is a communicator and an extent. Every file holds one whole array. Under weak scaling
!> its extents are the local size times the grid of the ranks that share it; under strong scaling
!> the global array is cut along z into as many slabs as there are files.
module benchio_layout
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allgather, MPI_Comm, MPI_COMM_SELF, MPI_Comm_dup, MPI_Comm_free, &
        MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Comm_split_type, &
        MPI_COMM_TYPE_SHARED, MPI_Bcast, MPI_INFO_NULL, MPI_INTEGER
    use benchio_decomposition, only: decomposition, element_bytes, fits_in_int64, new_decomposition
    use benchio_options, only: options, plan_array
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: file_of_ranks, new_layout, node_of_ranks, plan_role, read_shift, &
        readers_of_others

    !> What a rank does: the file it works on and its block of that file's array.
    type, public :: role
        integer :: file = 0                 !! index over all instances, from 0
        type(decomposition) :: block
    end type role

    !> Who works on this rank's file.
    type, public :: layout
        type(MPI_Comm) :: ranks                     !! those that share it
        type(MPI_Comm) :: io                        !! those that open it: the same, or rank 0 alone
        logical :: gather = .false.                 !! rank 0 writes what it gathers
        logical :: opens = .true.                   !! this rank is one of those
    end type layout

contains

    !> Collective: which node each rank is on, as an index from 0 in order of the lowest rank.
    function node_of_ranks(comm) result(node)
        type(MPI_Comm), intent(in) :: comm
        integer, allocatable :: node(:)

        type(MPI_Comm) :: on_node
        integer, allocatable :: leader(:)
        integer :: i, lowest, rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        call MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, on_node)
        lowest = rank
        call MPI_Bcast(lowest, 1, MPI_INTEGER, 0, on_node)
        call MPI_Comm_free(on_node)
        allocate (leader(ranks))
        call MPI_Allgather(lowest, 1, MPI_INTEGER, leader, 1, MPI_INTEGER, comm)
        allocate (node(ranks))
        do i = 1, ranks     ! the nodes whose lowest rank comes before
            node(i) = count([(leader(lowest + 1) == lowest, lowest=0, leader(i) - 1)])
        end do
    end function node_of_ranks

    !> The file of each rank, from 0; error is empty or one sentence.
    subroutine file_of_ranks(files, instances, node, file, error)
        character(*), intent(in) :: files           !! as given to --files
        integer, intent(in) :: instances
        integer, intent(in) :: node(:)              !! of each rank, from 0
        integer, allocatable, intent(out) :: file(:)
        character(:), allocatable, intent(out) :: error

        integer :: groups, i, ranks, team, teams_first

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
            ! A node that two instances share has a file of each.
            do i = 2, ranks
                teams_first = (i - 1)/team*team + 1
                if (i == teams_first .or. .not. any(node(teams_first:i - 1) == node(i))) then
                    file(i) = maxval(file(:i - 1)) + 1
                else
                    file(i) = file(teams_first - 1 + findloc(node(teams_first:i - 1), node(i), 1))
                end if
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

    !> What the rank with this number does, 0 <= rank; error is empty or one sentence.
    subroutine plan_role(choice, file, rank, part, error)
        type(options), intent(in) :: choice
        integer, intent(in) :: file(:)              !! of each rank
        integer, intent(in) :: rank
        type(role), intent(out) :: part
        character(:), allocatable, intent(out) :: error

        type(options) :: mine
        integer(int64) :: slab, slabs, sharers
        integer :: low, team

        part%file = file(rank + 1)
        sharers = count(file == part%file)
        mine = choice
        if (all(choice%global_size > 0)) then
            team = size(file)/choice%instances
            low = rank/team*team
            associate (files => file(low + 1:low + team))
                slab = part%file - minval(files)
                slabs = maxval(files) - minval(files) + 1
            end associate
            if (slabs > choice%global_size(3)) then
                error = 'more files ('//decimal(int(slabs))//') than planes of '// &
                    extents(choice%global_size)//' elements along z'
                return
            end if
            mine%global_size(3) = (slab + 1)*choice%global_size(3)/slabs &
                - slab*choice%global_size(3)/slabs
        end if
        call plan_array(mine, sharers, error)
        if (error /= '') return
        if (.not. fits_in_int64([mine%global_size, int(element_bytes, int64), &
            maxval(file) + 1_int64])) then
            error = 'all files together are more bytes than 2^63 - 1'
            return
        end if
        part%block = new_decomposition(mine%global_size, mine%grid, &
            count(file(:rank) == part%file, kind=int64), choice%halo)
    end subroutine plan_role

    !> Collective: the communicators for the file of the role this rank plays.
    function new_layout(choice, file, played, comm) result(it)
        type(options), intent(in) :: choice
        integer, intent(in) :: file(:)              !! of each rank
        integer, intent(in) :: played               !! the rank whose role this one plays
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        type(layout) :: it

        integer :: rank

        it%gather = choice%files == 'gather'
        call MPI_Comm_split(comm, file(played + 1), played, it%ranks)
        call MPI_Comm_rank(it%ranks, rank)
        it%opens = .not. it%gather .or. rank == 0
        if (it%gather) then
            call MPI_Comm_dup(MPI_COMM_SELF, it%io)
        else
            call MPI_Comm_dup(it%ranks, it%io)
        end if
    end function new_layout

    !> By how many ranks to shift so that as many as possible read what another node wrote.
    pure integer function read_shift(node) result(best)
        integer, intent(in) :: node(:)              !! of each rank

        integer :: most, others, shift

        best = min(1, size(node) - 1)
        most = 0
        do shift = 1, size(node) - 1
            others = readers_of_others(node, shift)
            if (others > most) then
                most = others
                best = shift
            end if
            if (most == size(node)) return
        end do
    end function read_shift

    !> How many ranks read what another node wrote.
    pure integer function readers_of_others(node, shift)
        integer, intent(in) :: node(:)              !! of each rank
        integer, intent(in) :: shift

        readers_of_others = count(node /= cshift(node, shift))
    end function readers_of_others

end module benchio_layout
