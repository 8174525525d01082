!> The transfer plan: the pieces that a block is moved in, alike for all backends.
!>
!> A piece is a box of at most so many bytes: whole planes along z, rows of a plane where a plane is
!> larger, a part of a row where a row is. So each piece is one run of elements of its block.
module benchio_transfer
    use, intrinsic :: iso_c_binding, only: c_int64_t
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Datatype, MPI_DOUBLE_PRECISION, MPI_ORDER_FORTRAN, MPI_Type_commit, &
        MPI_Type_create_subarray
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: decomposition
    implicit none (type, external)
    private

    public :: copy_piece, describe_piece, first_in_memory, new_transfer_plan

    !> A box of the block, in elements, in the order x, y, z.
    type, public :: piece
        integer(int64) :: before(3) = 0     !! elements of the block before it
        integer(int64) :: extent(3) = 0     !! all 0: an empty piece
        integer(int64) :: layer = 0         !! that it is in, from 0, even if it is empty
        integer(int64) :: in_layer = 0      !! planes of that layer of the block before it
    contains
        procedure :: elements
    end type piece

    type, public :: transfer_plan
        integer(int64) :: block(3) = 0      !! extents of the block, or of one layer of it
        integer(int64) :: step(3) = 1       !! extents of a full piece
        integer(int64) :: layers = 1        !! of the block, one after the other
        integer(int64) :: pieces_per_layer = 0  !! as many on all ranks: some may be empty
        integer(int64) :: seed = 0          !! of a random order within a layer; 0: as in the file
    contains
        procedure :: number_of              !! pieces
        procedure :: piece => piece_number  !! from 1; past the last: an empty one
    end type transfer_plan

    interface
        !> Returns the number at a place of a random order of so many, both from 0.
        pure integer(c_int64_t) function c_permuted(place, many, key) &
            bind(C, name='benchio_permuted')
            import :: c_int64_t
            integer(c_int64_t), value :: place, many, key
        end function c_permuted
    end interface

contains

    !> Pieces of at most so many bytes, but of at least one element.
    pure function new_transfer_plan(block, bytes) result(plan)
        integer(int64), intent(in) :: block(3), bytes
        type(transfer_plan) :: plan

        integer(int64) :: room
        integer :: i

        plan%block = block
        room = max(1_int64, bytes/element_bytes)
        do i = 1, 3
            plan%step(i) = min(block(i), room)
            room = room/block(i)
            if (room == 0) exit     ! what is along the next dimensions would not be adjacent
        end do
        plan%pieces_per_layer = product((block + plan%step - 1)/plan%step)
    end function new_transfer_plan

    pure integer(int64) function number_of(self)
        class(transfer_plan), intent(in) :: self

        number_of = self%pieces_per_layer*self%layers
    end function number_of

    pure type(piece) function piece_number(self, number) result(part)
        class(transfer_plan), intent(in) :: self
        integer(int64), intent(in) :: number

        integer(int64) :: along(3), at, pieces

        if (number > self%number_of()) return
        part%layer = (number - 1)/self%pieces_per_layer
        at = mod(number - 1, self%pieces_per_layer)
        along = (self%block + self%step - 1)/self%step
        pieces = product(along)
        if (at >= pieces) return
        if (self%seed /= 0) at = c_permuted(at, pieces, self%seed)
        part%before(1) = mod(at, along(1))
        part%before(2) = mod(at/along(1), along(2))
        part%before(3) = at/(along(1)*along(2))
        part%before = part%before*self%step
        part%extent = min(self%step, self%block - part%before)
        part%in_layer = part%before(3)
        part%before(3) = part%in_layer + part%layer*self%block(3)
    end function piece_number

    pure integer(int64) function elements(self)
        class(piece), intent(in) :: self

        elements = product(self%extent)
    end function elements

    !> Returns where a piece begins in the field with its halo, in elements from 1.
    pure integer(int64) function first_in_memory(block, part) result(first)
        type(decomposition), intent(in) :: block
        type(piece), intent(in) :: part

        integer(int64) :: before(3), n(3)

        before = block%halo + part%before
        n = block%extent + 2*block%halo
        first = 1 + before(1) + n(1)*(before(2) + n(2)*before(3))
    end function first_in_memory

    !> Describes to MPI a piece in memory, counted from its first element: a type, to be freed
    !> unless it is MPI_DOUBLE_PRECISION, and how many of them.
    subroutine describe_piece(part, room, in_memory, copies)
        type(piece), intent(in) :: part
        integer(int64), intent(in) :: room(3)       !! extents of the array that it is in
        type(MPI_Datatype), intent(out) :: in_memory
        integer, intent(out) :: copies

        integer :: sizes(3), subsizes(3), starts(3)

        in_memory = MPI_DOUBLE_PRECISION
        copies = int(part%elements())
        ! One row, rows as long as the array's in one plane, or whole planes: nothing parts them.
        if (part%extent(1) == room(1) .or. all(part%extent(2:) <= 1)) then
            if (part%extent(2) == room(2) .or. part%extent(3) <= 1) return
        end if
        sizes = int(room)
        subsizes = int(part%extent)
        starts = 0
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, &
            MPI_DOUBLE_PRECISION, in_memory)
        call MPI_Type_commit(in_memory)
        copies = 1
    end subroutine describe_piece

    !> Copies a piece of the field to a buffer, where nothing parts its elements, or back.
    pure subroutine copy_piece(field, halo, part, buffer, to_buffer)
        real(real64), intent(inout), contiguous :: field(:, :, :)   !! with halo
        integer(int64), intent(in) :: halo
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous :: buffer(:)
        logical, intent(in) :: to_buffer

        integer(int64) :: row, x, y, z

        row = 0
        x = halo + part%before(1)
        associate (n => part%extent(1))
            do z = halo + part%before(3) + 1, halo + part%before(3) + part%extent(3)
                do y = halo + part%before(2) + 1, halo + part%before(2) + part%extent(2)
                    if (to_buffer) then
                        buffer(row + 1:row + n) = field(x + 1:x + n, y, z)
                    else
                        field(x + 1:x + n, y, z) = buffer(row + 1:row + n)
                    end if
                    row = row + n
                end do
            end do
        end associate
    end subroutine copy_piece

end module benchio_transfer
