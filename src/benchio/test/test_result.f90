!> Rates, caches and hosts of a run: what may be said of them.
program test_result
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: new_decomposition
    use benchio_failure, only: exit_io, exit_time_limit
    use benchio_filesystem, only: known_fraction
    use benchio_result, only: contiguous_bytes, has_cases, is_cache_suspect, run_result
    use benchio_result_json, only: distinct
    use check, only: expect
    implicit none (type, external)

    integer(int64), parameter :: ext4 = int(z'ef53', int64), gpfs = int(z'47504653', int64)
    type(run_result) :: run

    allocate (run%seen(1, 1))
    call expect(.not. suspect('ext4', 0.0_real64, 0.0_real64), 'a disk without its page cache')
    call expect(.not. suspect('xfs', 0.001_real64, 0.0_real64), 'or with hardly any of it')
    call expect(suspect('ext4', 0.02_real64, 1.0_real64), 'what a page cache had is suspect')
    call expect(suspect('lustre', 0.02_real64, 1.0_real64), 'also if another node has written it')
    call expect(suspect('ext4', -1.0_real64, 1.0_real64), 'and what nobody knows')
    call expect(suspect('lustre', 0.0_real64, 0.0_real64), 'a client may have a cache of its own')
    call expect(suspect('lustre', 0.0_real64, 0.9_real64), 'on one of many nodes, too')
    call expect(.not. suspect('lustre', 0.0_real64, 1.0_real64), 'and all read from other nodes')
    call expect(known_fraction(0.0_real64, 0.9_real64, gpfs) < 0 .and. &
        abs(known_fraction(0.0_real64, 1.0_real64, gpfs)) <= 0, 'it may have what it has written')
    call expect(abs(known_fraction(0.0_real64, 0.0_real64, ext4)) <= 0 .and. &
        known_fraction(0.5_real64, 0.0_real64, gpfs) > 0, 'and what is seen is seen')

    call expect(.not. has_cases_after(exit_io, 9), 'a run that failed has no rate')
    call expect(.not. has_cases_after(exit_time_limit, 1), 'nor one with its warm-up alone')
    call expect(has_cases_after(exit_time_limit, 2), 'but one that the time limit ended later')

    call expect(all([piece([4, 1, 1]), piece([2, 2, 1]), piece([1, 4, 1]), piece([1, 1, 4])] &
        == 8*[5, 5, 5*6, 5*6*7]), 'pieces grow with every direction in which blocks are whole')

    call expect(same(distinct(['n2', 'n2', 'n1', 'n1', 'n3']), [1, 3, 5]), 'hosts as neighbours')
    call expect(same(distinct(['n1', 'n2', 'n1', 'n2', 'n3', 'n1']), [1, 2, 5]), 'and in turns')
    call expect(size(distinct([character(2) ::])) == 0, 'are listed once, if there are any')

contains

    pure logical function same(nodes, expected)
        integer, intent(in) :: nodes(:), expected(:)

        same = size(nodes) == size(expected)
        if (same) same = all(nodes == expected)
    end function same

    !> Bytes that a block of 5 x 6 x 7 has in one piece in the file.
    integer function piece(grid)
        integer, intent(in) :: grid(3)

        integer(int64), parameter :: extents(3) = [5, 6, 7]

        piece = int(contiguous_bytes(new_decomposition(extents*grid, int(grid, int64), 0_int64, &
            0_int64)))
    end function piece

    logical function suspect(filesystem, in_memory, from_other_nodes)
        character(*), intent(in) :: filesystem
        real(real64), intent(in) :: in_memory           !! part of the bytes; less than 0: not known
        real(real64), intent(in) :: from_other_nodes    !! part of the ranks

        run%place%filesystem = filesystem
        run%seen(1, 1)%page_cache_fraction = in_memory
        run%plan%other_node_byte_fraction = from_other_nodes
        suspect = is_cache_suspect(run, 1, 1)
    end function suspect

    logical function has_cases_after(status, rounds)
        integer, intent(in) :: status, rounds

        run%error%status = status
        run%completed = rounds
        run%choice%warmup = 1
        has_cases_after = has_cases(run)
    end function has_cases_after

end program test_result
