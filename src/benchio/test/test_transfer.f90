!> Pieces cover a block once, each one run of its elements within the bound; packing keeps halos.
program test_transfer
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_transfer, only: copy_piece, first_in_memory, new_transfer_plan, piece, transfer_plan
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
    call goes_through_layers()
    call shuffles(1_int64)
    call shuffles(2_int64)
    call shuffles(37_int64)
    call shuffles(4096_int64)

contains

    !> Layers one after the other, each with places for the pieces of the rank that has most.
    subroutine goes_through_layers()
        type(piece) :: part
        type(transfer_plan) :: plan
        integer(int64) :: before, i

        plan = new_transfer_plan([7_int64, 5_int64, 3_int64], 8*7*5*2_int64)
        plan%layers = 4
        plan%pieces_per_layer = 3      ! another rank has three pieces of a layer, this one two
        call expect(plan%number_of() == 12, 'places in all layers')
        before = 0
        do i = 1, 12
            part = plan%piece(i)
            call expect(part%layer == (i - 1)/3, 'its layer, even if it is empty')
            if (mod(i, 3_int64) == 0) then
                call expect(part%elements() == 0, 'empty where the other rank has one more')
                cycle
            end if
            call expect(part%before(3) == before, 'where the last one ended')
            call expect(part%in_layer == before - 3*part%layer, 'counted from its layer')
            call expect(part%in_layer + part%extent(3) <= 3, 'in one layer')
            before = before + part%extent(3)
        end do
        call expect(before == 12, 'all planes')
    end subroutine goes_through_layers

    !> Every row once, in an order that is not that of another rank, nor the rows' own.
    subroutine shuffles(rows)
        integer(int64), intent(in) :: rows

        type(piece) :: part
        type(transfer_plan) :: plan
        integer(int64) :: i, moved, same
        logical, allocatable :: seen(:)
        integer :: rank
        integer(int64) :: order(rows, 2)

        do rank = 1, 2
            plan = new_transfer_plan([4_int64, rows, 1_int64], 32_int64)
            plan%seed = rank
            allocate (seen(0:rows - 1), source=.false.)
            do i = 1, rows
                part = plan%piece(i)
                order(i, rank) = part%before(2)
                seen(part%before(2)) = .true.
            end do
            call expect(all(seen), 'every row')
            deallocate (seen)
        end do
        if (rows < 30) return
        same = count(order(:, 1) == order(:, 2))
        moved = count(order(:, 1) /= [(i, i=0, rows - 1)])
        call expect(moved > 9*rows/10, 'in another order')
        call expect(same < rows/5, 'in another order on each rank')
        call expect(count(order(2:, 1) == order(:rows - 1, 1) + 1) < rows/10, 'no runs')
    end subroutine shuffles

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
            call copy_piece(field, halo, part, buffer, .true.)
            first = first_in_memory(block, part)
            call expect(nint(buffer(1)) == first, 'the first element')
            call expect(nint(buffer(part%extent(1))) == first + part%extent(1) - 1, 'its row')
            call expect(part%extent(2) == 1 .or. &
                nint(buffer(part%extent(1) + 1)) == first + 9, 'the row after it')
            call copy_piece(copy, halo, part, buffer, .false.)
        end do
        call expect(all(nint(copy(3:7, 3:6, 3:5)) == nint(field(3:7, 3:6, 3:5))), 'the block')
        call expect(count(nint(copy) /= 0) == product(n), 'and no halo')
    end subroutine copies_pieces

end program test_transfer
