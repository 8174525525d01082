!> Who shares a file, over made-up node maps, and whose place a reader takes.
program test_layout
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_layout, only: file_of_ranks, file_share, partner_of_ranks, partner_on_node, &
        plan_share
    use benchio_command_line, only: argument, parse_options
    use benchio_options, only: options
    use check, only: expect
    implicit none (type, external)

    integer, parameter :: one_node(8) = 0
    integer, parameter :: blocks(8) = [0, 0, 0, 0, 1, 1, 1, 1]
    integer, parameter :: cyclic(8) = [0, 1, 0, 1, 0, 1, 0, 1]
    integer, parameter :: uneven(8) = [0, 0, 0, 0, 0, 1, 1, 2]
    integer, allocatable :: file(:)
    character(:), allocatable :: error

    call files('shared', 1, blocks, [0, 0, 0, 0, 0, 0, 0, 0])
    call files('gather', 2, blocks, [0, 0, 0, 0, 1, 1, 1, 1])
    call files('process', 2, blocks, [0, 1, 2, 3, 4, 5, 6, 7])
    call files('4', 1, blocks, [0, 0, 1, 1, 2, 2, 3, 3])
    call files('2', 2, blocks, [0, 0, 1, 1, 2, 2, 3, 3])
    call files('node', 1, blocks, [0, 0, 0, 0, 1, 1, 1, 1])
    call files('node', 1, cyclic, [0, 1, 0, 1, 0, 1, 0, 1])
    call files('node', 1, uneven, [0, 0, 0, 0, 0, 1, 1, 2])
    call files('node', 2, cyclic, [0, 1, 0, 1, 2, 3, 2, 3])     ! a file of each instance
    call files('node', 2, uneven, [0, 0, 0, 0, 1, 2, 2, 3])

    call file_of_ranks('3', 1, blocks, file, error)
    call expect(index(error, '--files 3') == 1, 'unequal groups are refused')
    call file_of_ranks('shared', 3, blocks, file, error)
    call expect(index(error, '--instances 3') == 1, 'unequal instances are refused')

    call unshareable([argument('--grid=2x1x1')], '--grid 2x1x1')
    call unshareable([argument('--global-size=4x4x1')], '4x4x1')
    call unshareable([argument('--halo=0'), argument('--local-size=1000000000x1000000000x1')], &
        '2^63 - 1')

    call partners(blocks, 8, 'all read from elsewhere')
    call partners(cyclic, 8, 'also if ranks alternate')
    call partners(uneven, 6, 'as many as can')
    call partners(one_node, 0, 'on one node another rank at least')
    call expect(all(partner_of_ranks([0]) == [0]), 'but for a single one')
    call expect(all(partner_on_node(uneven) == [1, 2, 3, 4, 0, 6, 5, 7]), 'or the next on a node')
    call expect(all(partner_on_node(cyclic) == [2, 3, 4, 5, 6, 7, 0, 1]), 'also if they alternate')

    call strong_scaling_cuts_along_z()

contains

    subroutine files(layout, instances, node, expected)
        character(*), intent(in) :: layout
        integer, intent(in) :: instances, node(:), expected(:)

        call file_of_ranks(layout, instances, node, file, error)
        call expect(error == '', layout//': '//error)
        call expect(all(file == expected), layout//' over these nodes')
    end subroutine files

    !> By two ranks with a file each.
    subroutine unshareable(arguments, reason)
        type(argument), intent(in) :: arguments(:)
        character(*), intent(in) :: reason

        type(options) :: choice
        type(file_share) :: share

        call parse_options(arguments, choice, error)
        call expect(error == '', 'it parses: '//error)
        call file_of_ranks('process', 1, [0, 0], file, error)
        call plan_share(choice, file, 0, share, error)
        call expect(index(error, reason) > 0, 'it is refused for '//reason//': '//error)
    end subroutine unshareable

    !> Every rank's share is read once, never by itself.
    subroutine partners(node, on_other_nodes, what)
        integer, intent(in) :: node(:), on_other_nodes
        character(*), intent(in) :: what

        integer :: partner(size(node)), rank

        partner = partner_of_ranks(node)
        call expect(count(node(partner + 1) /= node) == on_other_nodes, what)
        call expect(all([(count(partner == rank) == 1, rank=0, size(node) - 1)]), what//', once')
        call expect(.not. any([(partner(rank + 1) == rank, rank=0, size(node) - 1)]), &
            what//', no one its own')
    end subroutine partners

    !> 11 planes over three files of an instance, and again in the second instance.
    subroutine strong_scaling_cuts_along_z()
        type(options) :: choice
        type(file_share) :: share
        integer(int64) :: planes
        integer :: rank

        call parse_options([argument('--global-size=5x4x11'), argument('--instances=2')], choice, &
            error)
        call file_of_ranks('process', 2, [0, 0, 0, 0, 0, 0], file, error)
        planes = 0
        do rank = 0, 5
            call plan_share(choice, file, rank, share, error)
            call expect(error == '' .and. share%file == rank, 'a file each')
            call expect(all(share%block%extent(:2) == [5, 4]), 'whole planes')
            planes = planes + share%block%extent(3)
        end do
        call expect(planes == 22, 'every plane once in each instance')
    end subroutine strong_scaling_cuts_along_z

end program test_layout
