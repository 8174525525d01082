!> Pieces cover a block once, each one run of its elements within the bound; packing keeps halos.
program test_transfer
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_transfer, only: first_in_memory, new_transfer_plan, pack_piece, piece, &
        transfer_plan, unpack_piece
    use check, only: expect
    implicit none (type, external)

    call covers([7_int64, 5_int64, 11_int64], 8*7*5*3_int64, 4_int64)       ! three planes each
    call covers([7_int64, 5_int64, 11_int64], 8*7*5*4_int64 - 8, 4_int64)   ! never a part of one
    call covers([7_int64, 5_int64, 2_int64], 8*7*2_int64, 6_int64)          ! two rows each
    call covers([7_int64, 5_int64, 2_int64], 8*3_int64, 30_int64)           ! parts of a row
    call covers([7_int64, 5_int64, 2_int64], 1_int64, 70_int64)             ! never less than one
    call covers([1_int64, 1_int64, 1_int64], 2_int64**23, 1_int64)
    call covers([2_int64**31 - 1, 1_int64, 1_int64], 2_int64**30, 16_int64)
    call covers([4096_int64, 4096_int64, 4096_int64], 2_int64**30, 512_int64)
    call copies_pieces()

contains

    subroutine covers(block, bytes, expected)
        integer(int64), intent(in) :: block(3), bytes, expected

        type(piece) :: part
        type(transfer_plan) :: plan
        integer(int64) :: before, i, low

        plan = new_transfer_plan(block, bytes)
        call expect(plan%number_of() == expected, 'as many as expected')
        before = 0
        do i = 1, plan%number_of()
            part = plan%piece(i)
            call expect(all(part%before + part%extent <= block) .and. all(part%extent > 0), &
                'inside the block')
            call expect(8*part%elements() <= max(bytes, 8_int64), 'within the bound')
            low = part%before(1) + block(1)*(part%before(2) + block(2)*part%before(3))
            call expect(low == before, 'where the last one ended')
            call expect(part%extent(1) == block(1) .or. all(part%extent(2:3) == 1), 'one run')
            call expect(part%extent(2) == block(2) .or. part%extent(3) == 1, 'one run')
            before = low + part%elements()
        end do
        call expect(before == product(block), 'every element once')
        part = plan%piece(plan%number_of() + 1)
        call expect(part%elements() == 0 .and. all(part%before == 0), 'nothing past the last')
    end subroutine covers

    !> What is packed is what is in memory from the piece's first element on, row by row; and what
    !> is unpacked changes nothing else.
    subroutine copies_pieces()
        integer(int64), parameter :: n(3) = [5, 4, 3], ones(3) = 1, halo = 2
        type(decomposition) :: block
        type(piece) :: part
        type(transfer_plan) :: plan
        real(real64) :: field(9, 8, 7), copy(9, 8, 7), buffer(60)
        integer(int64) :: first, i
        integer :: j

        block = new_decomposition(n, ones, 0_int64, halo)
        field = reshape([(real(j, real64), j=1, size(field))], shape(field))
        copy = 0
        plan = new_transfer_plan(block%extent, 8*5*3_int64)
        do i = 1, plan%number_of()
            part = plan%piece(i)
            call pack_piece(field, halo, part, buffer)
            first = first_in_memory(block, part)
            call expect(nint(buffer(1)) == first, 'the first element')
            call expect(nint(buffer(part%extent(1))) == first + part%extent(1) - 1, 'its row')
            call expect(part%extent(2) == 1 .or. &
                nint(buffer(part%extent(1) + 1)) == first + 9, 'the row after it')
            call unpack_piece(buffer, halo, part, copy)
        end do
        call expect(all(nint(copy(3:7, 3:6, 3:5)) == nint(field(3:7, 3:6, 3:5))), 'the block')
        call expect(count(nint(copy) /= 0) == product(n), 'and no halo')
    end subroutine copies_pieces

end program test_transfer
