!> Blocks tile the array, ranks run fastest along x, and nothing overflows at 2^40 elements.
program test_decomposition
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: automatic_grid, decomposition, fits_in_int64, &
        new_decomposition
    use check, only: expect
    implicit none (type, external)

    call white_paper_figure_3()
    call blocks_tile_the_array([7_int64, 5_int64, 11_int64], [2_int64, 3_int64, 4_int64])
    call blocks_tile_the_array([1_int64, 1_int64, 6_int64], [1_int64, 1_int64, 6_int64])
    call automatic_grids()
    call sizes_beyond_32_bits()
    call overflow_is_seen()

contains

    !> White paper, Figure 3: 8 ranks on 4x4x4, the owner of each pair of elements in file order.
    subroutine white_paper_figure_3()
        integer, parameter :: figure(32) = [ &
            0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3, &
            4, 5, 4, 5, 6, 7, 6, 7, 4, 5, 4, 5, 6, 7, 6, 7]
        integer(int64), parameter :: four(3) = 4
        integer, allocatable :: owner(:, :, :)
        integer :: in_file(64)

        owner = owners(four, automatic_grid(8_int64, four))
        in_file = reshape(owner, [64])      ! x runs fastest, as in the file
        call expect(all(in_file(1::2) == figure), 'first of each pair as in Figure 3')
        call expect(all(in_file(2::2) == figure), 'second of each pair as in Figure 3')
    end subroutine white_paper_figure_3

    !> Every element has one owner, and extents along a dimension differ by at most one.
    subroutine blocks_tile_the_array(global, grid)
        integer(int64), intent(in) :: global(3), grid(3)

        type(decomposition) :: block
        integer(int64) :: rank
        integer, allocatable :: owner(:, :, :)

        owner = owners(global, grid)
        call expect(all(owner >= 0), 'every element is owned')
        do rank = 0, product(grid) - 1
            block = new_decomposition(global, grid, rank, 2_int64)
            call expect(count(owner == rank) == block%elements(), 'no block covers another')
            call expect(all(block%extent >= global/grid), 'no block is too small')
            call expect(all(block%extent <= (global + grid - 1)/grid), 'no block is too large')
            call expect(block%field_bytes() == 8*product(block%extent + 4), 'halo on both sides')
        end do
    end subroutine blocks_tile_the_array

    function owners(global, grid) result(owner)
        integer(int64), intent(in) :: global(3), grid(3)
        integer, allocatable :: owner(:, :, :)

        type(decomposition) :: block
        integer(int64) :: rank

        allocate (owner(global(1), global(2), global(3)), source=-1)
        do rank = 0, product(grid) - 1
            block = new_decomposition(global, grid, rank, 0_int64)
            associate (low => block%lower + 1, high => block%lower + block%extent)
                owner(low(1):high(1), low(2):high(2), low(3):high(3)) = int(rank)
            end associate
        end do
    end function owners

    subroutine automatic_grids()
        integer(int64), parameter :: cube(3) = 64

        call expect(all(automatic_grid(1_int64, cube) == [1, 1, 1]), '1 writer')
        call expect(all(automatic_grid(4_int64, cube) == [2, 2, 1]), '4 writers')
        call expect(all(automatic_grid(24_int64, cube) == [4, 3, 2]), '24 writers')
        call expect(all(automatic_grid(7_int64, cube) == [7, 1, 1]), '7 writers')
        call expect(all(automatic_grid(4_int64, [8_int64, 8_int64, 1024_int64]) == [1, 1, 4]), &
            'a long array is cut along its length')
        call expect(all(automatic_grid(6_int64, [1_int64, 2_int64, 3_int64]) == [1, 2, 3]), &
            'one element each')
        call expect(all(automatic_grid(7_int64, [2_int64, 2_int64, 2_int64]) == 0), &
            'more writers than any grid can use')
    end subroutine automatic_grids

    !> 2^14 ranks of 2^26 elements: 2^40 elements, 2^43 bytes.
    subroutine sizes_beyond_32_bits()
        integer(int64), parameter :: global(3) = [2_int64**14, 2_int64**13, 2_int64**13]
        integer(int64), parameter :: grid(3) = [32, 32, 16]
        type(decomposition) :: last

        last = new_decomposition(global, grid, product(grid) - 1, 1_int64)
        call expect(last%elements() == 2_int64**26, '2^26 elements in a block')
        call expect(last%global_bytes() == 2_int64**43, '2^43 bytes in the file')
        call expect(all(last%lower + last%extent == global), 'the last block ends the array')

        last = new_decomposition([2_int64**31 - 1, 1_int64, 1_int64], &
            [2_int64**20, 1_int64, 1_int64], 2_int64**20 - 1, 0_int64)
        call expect(last%lower(1) + last%extent(1) == 2_int64**31 - 1, 'the longest dimension')
    end subroutine sizes_beyond_32_bits

    subroutine overflow_is_seen()
        call expect(fits_in_int64([2_int64**31, 2_int64**31 - 1]), 'just under 2^62')
        call expect(fits_in_int64([huge(1_int64)]), 'the largest number itself')
        call expect(.not. fits_in_int64([2_int64**32, 2_int64**31]), '2^63 does not fit')
        call expect(.not. fits_in_int64([2_int64**31, 2_int64**31, 2_int64**31, 8_int64]), &
            'far beyond 2^63')
    end subroutine overflow_is_seen

end program test_decomposition
