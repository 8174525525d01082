!> Slabs cover a box once, within their bound.
program test_slabs
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_slabs, only: new_slabs, slabs
    use check, only: expect
    implicit none (type, external)

    call covers([7_int64, 5_int64, 11_int64], 8*7*5*3_int64, 4_int64)      ! three planes each
    call covers([7_int64, 5_int64, 2_int64], 8*7*2_int64, 6_int64)         ! two rows each
    call covers([7_int64, 5_int64, 2_int64], 1_int64, 10_int64)            ! never less than a row
    call covers([1_int64, 1_int64, 1_int64], 2_int64**23, 1_int64)
    call covers([2_int64**31 - 1, 1_int64, 1_int64], 2_int64**23, 1_int64)

contains

    subroutine covers(box, bytes, expected)
        integer(int64), intent(in) :: box(3), bytes, expected

        type(slabs) :: cut
        integer(int64) :: before(3), elements, extent(3), i, last(3)

        cut = new_slabs(box, bytes)
        call expect(cut%number_of() == expected, 'as many as expected')
        elements = 0
        last = -1
        do i = 1, cut%number_of()
            call cut%bounds(i, before, extent)
            call expect(all(before + extent <= box) .and. all(extent > 0), 'inside the box')
            call expect(before(3) > last(3) .or. before(2) > last(2), 'one after the other')
            call expect(8*product(extent) <= max(bytes, 8*box(1)), 'within the bound')
            elements = elements + product(extent)
            last = before
        end do
        call expect(elements == product(box), 'every element once')
        call cut%bounds(cut%number_of() + 1, before, extent)
        call expect(all(extent == 0), 'nothing past the last')
    end subroutine covers

end program test_slabs
