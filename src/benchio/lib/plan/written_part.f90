!> The part of a file that one node has written: what that node may still hold in memory, and must
!> not be the one to confirm.
module benchio_written_part
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: decomposition, owner_along
    use benchio_nodes, only: rank_run
    implicit none (type, external)
    private

    type, public :: written_part
        type(rank_run), allocatable :: ranks(:)     !! writers that ran on the node, of all files
        integer :: first = 0                        !! rank of the writer of the file's first block
        logical :: has_one_writer = .false.         !! a node, or a rank, has written the file alone
        type(decomposition) :: array                !! extents, grid of the writers and layers
    contains
        procedure :: block_at
        procedure :: has_block
        procedure :: look_at
        procedure :: elements_in_run
        procedure :: bytes_in_block
    end type written_part

contains

    !> Whether a rank of the node has written a block.
    pure logical function has_block(self, number)
        class(written_part), intent(in) :: self
        integer(int64), intent(in) :: number        !! of the block in the grid of the writers

        integer :: i, rank

        has_block = .false.
        rank = self%first
        if (.not. self%has_one_writer) rank = rank + int(number)
        do i = 1, size(self%ranks)
            has_block = self%ranks(i)%has(rank)
            if (has_block) return
        end do
    end function has_block

    !> Finds the number of the block that an element is in, in the grid of the writers.
    pure integer(int64) function block_at(self, at) result(number)
        class(written_part), intent(in) :: self
        integer(int64), intent(in) :: at            !! index of the element in the array, from 0

        integer(int64) :: cell(3), layer(3)

        layer = self%array%layer()
        associate (grid => self%array%grid)
            cell = owner_along([mod(at, layer(1)), mod(at/layer(1), layer(2)), &
                mod(at/(layer(1)*layer(2)), layer(3))], grid, layer)
            number = cell(1) + grid(1)*(cell(2) + grid(2)*cell(3))
        end associate
    end function block_at

    !> Looks at an element of the file: whether the node has written it, and how many elements from
    !> there on are of the same block.
    pure subroutine look_at(self, at, most, is_here, elements)
        class(written_part), intent(in) :: self
        integer(int64), intent(in) :: at            !! index of the element in the array, from 0
        integer(int64), intent(in) :: most          !! elements at which to stop counting
        logical, intent(out) :: is_here
        integer(int64), intent(out) :: elements

        integer(int64) :: cell(3), layer(3), left(3), place(3)

        layer = self%array%layer()
        place = [mod(at, layer(1)), mod(at/layer(1), layer(2)), &
            mod(at/(layer(1)*layer(2)), layer(3))]
        associate (grid => self%array%grid)
            cell = owner_along(place, grid, layer)
            left = (cell + 1)*layer/grid - place
            elements = left(1)
            if (grid(1) == 1) then                  ! whole rows follow
                elements = elements + layer(1)*(left(2) - 1)
                if (grid(2) == 1) elements = elements + layer(1)*layer(2)*(left(3) - 1)
            end if
            elements = min(elements, most)
            is_here = self%has_block(cell(1) + grid(1)*(cell(2) + grid(2)*cell(3)))
        end associate
    end subroutine look_at

    !> Elements of a run in the file that the node has written.
    pure integer(int64) function elements_in_run(self, first, last) result(elements)
        class(written_part), intent(in) :: self
        integer(int64), intent(in) :: first, last   !! indices, from 0, and before `last`

        integer(int64) :: at, follow
        integer :: i, last_writer
        logical :: is_here

        elements = last - first
        last_writer = self%first
        if (.not. self%has_one_writer) last_writer = last_writer + int(product(self%array%grid)) - 1
        do i = 1, size(self%ranks)
            if (self%ranks(i)%has(self%first) .and. self%ranks(i)%has(last_writer)) return
        end do
        elements = 0
        at = first
        do while (at < last)
            call self%look_at(at, last - at, is_here, follow)
            if (is_here) elements = elements + follow
            at = at + follow
        end do
    end function elements_in_run

    !> Bytes of a block, of any grid over the same array, that the node has written.
    pure integer(int64) function bytes_in_block(self, block) result(bytes)
        class(written_part), intent(in) :: self
        type(decomposition), intent(in) :: block

        integer(int64) :: extent(3), first(3), from(3), last(3), layer(3), to(3), x, y, z

        bytes = 0
        layer = self%array%layer()
        extent = block%layer_of_block()
        associate (grid => self%array%grid, lower => block%lower)
            from = owner_along(lower, grid, layer)
            to = owner_along(lower + extent - 1, grid, layer)
            do z = from(3), to(3)
                do y = from(2), to(2)
                    do x = from(1), to(1)
                        if (.not. self%has_block(x + grid(1)*(y + grid(2)*z))) cycle
                        first = max(lower, [x, y, z]*layer/grid)
                        last = min(lower + extent, [x + 1, y + 1, z + 1]*layer/grid)
                        bytes = bytes + element_bytes*product(last - first)
                    end do
                end do
            end do
        end associate
        bytes = bytes*block%layers
    end function bytes_in_block

end module benchio_written_part
