!> How many files there are, and which bytes a rank confirms, over made-up maps of hosts.
program test_ownership
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_command_line, only: argument, parse_options
    use benchio_decomposition, only: automatic_grid, decomposition, new_decomposition
    use benchio_ownership, only: count_groups, file_share, half_turn, plan_block, second_readers
    use benchio_nodes, only: new_runs
    use benchio_options, only: options
    use benchio_written_part, only: written_part
    use check, only: expect
    implicit none (type, external)

    integer(int64), parameter :: cube(3) = [4, 4, 4], large(3) = [200, 100, 80]
    integer, parameter :: in_blocks = 1, in_turn = 2
    character(:), allocatable :: error
    integer :: i

    call groups('shared', 1, 8, 1)
    call groups('gather', 2, 8, 1)
    call groups('process', 2, 8, 4)
    call groups('4', 1, 8, 4)
    call groups('2', 2, 8, 2)
    call groups('node', 1, 8, 0)
    call refused('3', 1, 8, '--files 3')
    call refused('shared', 3, 8, '--instances 3')

    call unshareable([argument('--grid=2x1x1')], '--grid 2x1x1')
    call unshareable([argument('--global-size=4x4x1')], '4x4x1')
    call unshareable([argument('--halo=0'), argument('--local-size=1000000000x1000000000x1')], &
        '2^63 - 1')
    call strong_scaling_cuts_along_z()

    ! Ranks of each node in blocks: the turn alone is enough.
    call nobody_confirms_its_own(nodes_of(64, 8, in_blocks), 4*cube, cube, 1, .true.)
    call nobody_confirms_its_own(nodes_of(8, 2, in_blocks), [8_int64, 9_int64, 10_int64], &
        [2_int64, 1_int64, 4_int64], 1, .true.)
    call nobody_confirms_its_own(nodes_of(100000, 782, in_blocks), large, &
        automatic_grid(100000_int64, large), 1, .true.)
    ! In turn, or blocks that all nodes have in each plane, or steps: others have to help.
    call nobody_confirms_its_own(nodes_of(64, 8, in_turn), 4*cube, cube, 1, .false.)
    call nobody_confirms_its_own(nodes_of(64, 8, in_blocks), [64_int64, 2_int64, 3_int64], &
        [64_int64, 1_int64, 1_int64], 1, .false.)
    call nobody_confirms_its_own(nodes_of(8, 2, in_blocks), [16_int64, 3_int64, 12_int64], &
        [2_int64, 1_int64, 4_int64], 3, .false.)
    call nobody_confirms_its_own(nodes_of(100000, 1000, in_turn), large, &
        automatic_grid(100000_int64, large), 1, .false.)
    ! Uneven: one node has more than half, ranks of another are apart, a node has one rank.
    call nobody_confirms_its_own([0, 0, 0, 0, 0, 1, 1, 2], 2*[2_int64, 2_int64, 2_int64], &
        [2_int64, 2_int64, 2_int64], 1, .false.)
    call nobody_confirms_its_own([0, 1, 1, 1, 1, 1, 1, 2, 2], 3*[3_int64, 3_int64, 1_int64], &
        [3_int64, 3_int64, 1_int64], 1, .false.)
    call nobody_confirms_its_own([0, 1, 2, 0, 2, 2, 1, 0, 3, 0], [20_int64, 3_int64, 4_int64], &
        [5_int64, 1_int64, 2_int64], 1, .false.)
    ! Alone, a node confirms what it has written itself.
    call nobody_confirms_its_own([(0, i=1, 6)], [6_int64, 5_int64, 4_int64], &
        [1_int64, 3_int64, 2_int64], 1, .false.)
    call expect(half_turn(1) == 0 .and. half_turn(2) == 1, 'nor does a rank, unless it is alone')

contains

    subroutine groups(files, instances, ranks, expected)
        character(*), intent(in) :: files
        integer, intent(in) :: instances, ranks, expected

        type(options) :: choice
        integer :: number

        choice%files = files
        choice%instances = instances
        call count_groups(choice, ranks, number, error)
        call expect(error == '', files//': '//error)
        call expect(number == expected, files//' of so many ranks')
    end subroutine groups

    subroutine refused(files, instances, ranks, reason)
        character(*), intent(in) :: files, reason
        integer, intent(in) :: instances, ranks

        type(options) :: choice
        integer :: number

        choice%files = files
        choice%instances = instances
        call count_groups(choice, ranks, number, error)
        call expect(index(error, reason) == 1, 'unequal groups are refused: '//error)
    end subroutine refused

    !> By two ranks with a file each.
    subroutine unshareable(arguments, reason)
        type(argument), intent(in) :: arguments(:)
        character(*), intent(in) :: reason

        type(options) :: choice
        type(decomposition) :: block

        call parse_options(arguments, choice, error)
        call expect(error == '', 'it parses: '//error)
        call plan_block(choice, 0, 2, 2, 1, 0, block, error)
        call expect(index(error, reason) > 0, 'it is refused for '//reason//': '//error)
    end subroutine unshareable

    !> 11 planes over three files.
    subroutine strong_scaling_cuts_along_z()
        type(options) :: choice
        type(decomposition) :: block
        integer(int64) :: planes
        integer :: slab

        call parse_options([argument('--global-size=5x4x11')], choice, error)
        planes = 0
        do slab = 0, 2
            call plan_block(choice, slab, 3, 6, 1, 0, block, error)
            call expect(error == '' .and. all(block%extent(:2) == [5, 4]), 'whole planes')
            planes = planes + block%extent(3)
        end do
        call expect(planes == 11, 'every plane once')
    end subroutine strong_scaling_cuts_along_z

    !> The node of each rank.
    pure function nodes_of(ranks, nodes, order) result(node)
        integer, intent(in) :: ranks, nodes, order
        integer, allocatable :: node(:)

        integer :: i, on_node

        on_node = (ranks + nodes - 1)/nodes
        if (order == in_blocks) node = [(i/on_node, i=0, ranks - 1)]
        if (order == in_turn) node = [(mod(i, nodes), i=0, ranks - 1)]
    end function nodes_of

    !> Every element of a file that all ranks share is confirmed once, and on no node that has
    !> written it. Here all ranks are looked at, each as it would look at itself.
    subroutine nobody_confirms_its_own(node, global, grid, layers, is_turn_enough)
        integer, intent(in) :: node(0:)             !! of each rank, from 0
        integer(int64), intent(in) :: global(3), grid(3)
        integer, intent(in) :: layers
        logical, intent(in) :: is_turn_enough       !! no rank has to help another

        type(file_share) :: share
        type(written_part), allocatable :: part(:)
        integer, allocatable :: at(:), from(:), ignored(:), order(:)
        integer(int64) :: confirmed, first, here, last, of_all
        integer :: back, bounds(2), i, k, partner, place, ranks, shift, to

        ranks = size(node)
        call expect(product(grid) == ranks, 'a grid of all ranks')
        share%sharers = ranks
        share%block = new_decomposition(global, grid, 0_int64, 0_int64, int(layers, int64))
        allocate (part(0:maxval(node)), at(0:maxval(node) + 1), order(0:ranks - 1))
        at = 0
        do i = 0, ranks - 1
            at(node(i) + 1) = at(node(i) + 1) + 1
        end do
        bounds = huge(bounds)
        do i = 1, ubound(at, 1)
            if (2*at(i) > ranks) bounds = [at(i - 1), at(i - 1) + at(i)]
            at(i) = at(i) + at(i - 1)
        end do
        do i = 0, ranks - 1
            order(at(node(i))) = i
            at(node(i)) = at(node(i)) + 1
        end do
        do i = 0, maxval(node)
            first = merge(0, at(max(0, i - 1)), i == 0)
            part(i)%ranks = new_runs(order(first:at(i) - 1))
            part(i)%array = share%block
        end do

        shift = half_turn(ranks)
        confirmed = 0
        of_all = 0
        do place = 0, ranks - 1
            i = order(place)
            partner = order(modulo(place + shift, ranks))
            call expect(partner /= i .or. ranks == 1, 'no rank reads its own share')
            call share%slice(partner, first, last)
            here = part(node(i))%elements_in_run(first, last)
            of_all = of_all + here
            call second_readers(place, ranks, bounds, to, from)
            if (to < 0) then
                call expect(maxval(node) == 0, 'only a node alone has no other')
                here = 0
            else
                call expect(node(order(to)) /= node(i), 'another node helps')
                call second_readers(to, ranks, bounds, back, ignored)
                call expect(any(ignored == place), 'and knows whom')
            end if
            confirmed = confirmed + (last - first) - here
            do k = 1, size(from)
                call second_readers(from(k), ranks, bounds, back, ignored)
                call expect(back == place, 'who is helped knows who helps')
                call share%slice(order(modulo(from(k) + shift, ranks)), first, last)
                confirmed = confirmed + part(node(order(from(k))))%elements_in_run(first, last)
            end do
        end do
        call expect(confirmed == product(global), 'each element is confirmed once')
        if (maxval(node) > 0) call expect((of_all == 0) .eqv. is_turn_enough, &
            'as many slices have bytes of their reader''s node as should')
    end subroutine nobody_confirms_its_own

end program test_ownership
