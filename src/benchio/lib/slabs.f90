!> Cuts a box into bounded slabs: whole planes along z, or rows along y where a plane is too large;
!> and copies a box of a larger array to a buffer and back.
module benchio_slabs
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_decomposition, only: element_bytes
    implicit none (type, external)
    private

    public :: new_slabs, pack_box, unpack_box

    type, public :: slabs
        integer(int64) :: box(3) = 0        !! extents of the box
        integer(int64) :: slab(3) = 0       !! extents of a full slab
    contains
        procedure :: number_of
        procedure :: bounds
    end type slabs

contains

    !> Slabs of at most so many bytes; a single row may be larger.
    pure function new_slabs(box, bytes) result(cut)
        integer(int64), intent(in) :: box(3), bytes
        type(slabs) :: cut

        integer(int64) :: rows

        rows = max(1_int64, bytes/element_bytes/box(1))
        cut%box = box
        cut%slab(1) = box(1)
        cut%slab(2) = min(box(2), rows)
        cut%slab(3) = 1
        if (rows >= box(2)) cut%slab(3) = min(box(3), rows/box(2))
    end function new_slabs

    pure integer(int64) function number_of(self)
        class(slabs), intent(in) :: self

        number_of = along(self, 2)*along(self, 3)
    end function number_of

    !> Elements before the slab and its extents, 1 <= number; past the last slab the extents are 0.
    pure subroutine bounds(self, number, before, extent)
        class(slabs), intent(in) :: self
        integer(int64), intent(in) :: number
        integer(int64), intent(out) :: before(3), extent(3)

        before = 0
        extent = 0
        if (number > self%number_of()) return
        before(2) = mod(number - 1, along(self, 2))*self%slab(2)
        before(3) = (number - 1)/along(self, 2)*self%slab(3)
        extent = min(self%slab, self%box - before)
    end subroutine bounds

    pure integer(int64) function along(self, dimension)
        class(slabs), intent(in) :: self
        integer, intent(in) :: dimension

        associate (n => self%box(dimension), width => self%slab(dimension))
            along = (n + width - 1)/width
        end associate
    end function along

    pure subroutine pack_box(field, before, extent, buffer)
        real(real64), intent(in), contiguous :: field(:, :, :)
        integer(int64), intent(in) :: before(3)     !! elements of the field before the box
        integer(int64), intent(in) :: extent(3)
        real(real64), intent(inout), contiguous :: buffer(:)

        integer(int64) :: x, y, z, to

        x = before(1)
        to = 0
        do z = before(3) + 1, before(3) + extent(3)
            do y = before(2) + 1, before(2) + extent(2)
                buffer(to + 1:to + extent(1)) = field(x + 1:x + extent(1), y, z)
                to = to + extent(1)
            end do
        end do
    end subroutine pack_box

    pure subroutine unpack_box(buffer, before, extent, field)
        real(real64), intent(in), contiguous :: buffer(:)
        integer(int64), intent(in) :: before(3)     !! elements of the field before the box
        integer(int64), intent(in) :: extent(3)
        real(real64), intent(inout), contiguous :: field(:, :, :)

        integer(int64) :: x, y, z, from

        x = before(1)
        from = 0
        do z = before(3) + 1, before(3) + extent(3)
            do y = before(2) + 1, before(2) + extent(2)
                field(x + 1:x + extent(1), y, z) = buffer(from + 1:from + extent(1))
                from = from + extent(1)
            end do
        end do
    end subroutine unpack_box

end module benchio_slabs
