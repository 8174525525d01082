!> The median of repetitions, and how the nodes of a run differ.
program test_statistics
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_phases, only: node_spread, spread_of
    use benchio_statistics, only: median, sorted
    use check, only: expect
    implicit none (type, external)

    type(node_spread) :: spread
    integer :: i

    call expect(same(median([3.0_real64]), 3.0_real64), 'of one value')
    call expect(same(median([4.0_real64, 1.0_real64]), 2.5_real64), 'of two')
    call expect(same(median([7.0_real64, 1.0_real64, 1.0_real64]), 1.0_real64), 'of equal ones')
    call expect(same(median([8.0_real64, 1.0_real64, 4.0_real64, 2.0_real64]), 3.0_real64), &
        'of an even number')
    call expect(all(same(sorted([(real(mod(37*i, 101), real64), i=1, 100)]), &
        [(real(i, real64), i=1, 100)])), 'many are sorted')

    spread = spread_of([2.0_real64, -1.0_real64, 8.0_real64, 4.0_real64])
    call expect(spread%nodes == 3 .and. spread%least == 1 .and. spread%most == 3, &
        'of the nodes that have a figure the least and the most are named')
    call expect(all(same(spread%quantiles, [2.0_real64, 4.0_real64, 4.0_real64, 8.0_real64, &
        8.0_real64])), 'quantiles are values of nodes')
    call expect(all(same(spread%each, [2.0_real64, -1.0_real64, 8.0_real64, 4.0_real64])), &
        'and few nodes are listed')
    spread = spread_of([(real(i, real64), i=1, 100000)])
    call expect(.not. allocated(spread%each), 'very many are not')
    call expect(all(same(spread%quantiles([1, 5]), [1.0_real64, 1e5_real64])), 'their ends are')
    call expect(abs(spread%quantiles(3) - 5e4_real64) < 2, 'and their middle')
    spread = spread_of([-1.0_real64, -2e15_real64])
    call expect(spread%nodes == 0, 'a phase that no node has is of none')

contains

    elemental logical function same(a, b)
        real(real64), intent(in) :: a, b

        same = transfer(a, 0_int64) == transfer(b, 0_int64)
    end function same

end program test_statistics
