!> Which block of the global 3D array a rank owns.
!>
!> Ranks run fastest along x, as elements do in the file: rank = cx + P*(cy + Q*cz) on a grid of
!> PxQxR. A dimension of N elements over P ranks gives rank c the elements c*N/P to (c+1)*N/P - 1,
!> so blocks differ by at most one element. All arithmetic is in 64 bits.
module benchio_decomposition
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_access, only: element_bytes
    implicit none (type, external)
    private

    public :: automatic_grid, fits_in_int64, new_decomposition, owner_along

    !> Largest extent of one dimension: MPI takes them as 32-bit integers.
    integer(int64), parameter, public :: max_extent = 2_int64**31 - 1

    !> A rank's block, in elements, in the order x, y, z.
    type, public :: decomposition
        integer(int64) :: global(3) = 0     !! extents of the whole array
        integer(int64) :: grid(3) = 0       !! ranks along each dimension
        integer(int64) :: lower(3) = 0      !! global index of the block's first element, from 0
        integer(int64) :: extent(3) = 0     !! extents of the block, all layers, without halo
        integer(int64) :: halo = 0          !! halo width on each side, in memory only
        integer(int64) :: layers = 1        !! along z, each cut alike: the block has a part of all
    contains
        procedure :: layer
        procedure :: layer_of_block
        procedure :: plane
        procedure :: elements
        procedure :: bytes
        procedure :: field_bytes
        procedure :: global_bytes
    end type decomposition

contains

    !> The block of a rank, 0 <= rank < product(grid). The array has so many layers along z, one
    !> if that is not said, and each is spread over all ranks.
    pure function new_decomposition(global, grid, rank, halo, layers) result(block)
        integer(int64), intent(in) :: global(3), grid(3), rank, halo
        integer(int64), intent(in), optional :: layers      !! divide the extent along z
        type(decomposition) :: block

        integer(int64) :: coordinate(3), layer(3)

        coordinate = [mod(rank, grid(1)), mod(rank/grid(1), grid(2)), rank/(grid(1)*grid(2))]
        block%global = global
        block%grid = grid
        if (present(layers)) block%layers = layers
        layer = block%layer()
        block%lower = coordinate*layer/grid
        block%extent = (coordinate + 1)*layer/grid - block%lower
        block%extent(3) = block%layers*block%extent(3)
        block%halo = halo
    end function new_decomposition

    !> Extents of a layer of the global array.
    pure function layer(self) result(extents)
        class(decomposition), intent(in) :: self
        integer(int64) :: extents(3)

        extents = self%global
        extents(3) = extents(3)/self%layers
    end function layer

    !> Extents of the block's part of a layer.
    pure function layer_of_block(self) result(extents)
        class(decomposition), intent(in) :: self
        integer(int64) :: extents(3)

        extents = self%extent
        extents(3) = extents(3)/self%layers
    end function layer_of_block

    !> Which plane of the global array a plane of the block is, both from 0.
    elemental integer(int64) function plane(self, z)
        class(decomposition), intent(in) :: self
        integer(int64), intent(in) :: z

        associate (own => self%extent(3)/self%layers)
            plane = (z/own)*(self%global(3)/self%layers) + self%lower(3) + mod(z, own)
        end associate
    end function plane

    !> Which of so many ranks along a dimension owns an element of it, both from 0: the last one
    !> whose first element is not after it.
    elemental integer(int64) function owner_along(element, ranks, elements) result(owner)
        integer(int64), intent(in) :: element, ranks, elements

        owner = ((element + 1)*ranks - 1)/elements
    end function owner_along

    !> Elements of the block without halo.
    elemental integer(int64) function elements(self)
        class(decomposition), intent(in) :: self

        elements = product(self%extent)
    end function elements

    !> Bytes this rank writes.
    elemental integer(int64) function bytes(self)
        class(decomposition), intent(in) :: self

        bytes = element_bytes*self%elements()
    end function bytes

    !> Bytes of the block in memory, halo included.
    elemental integer(int64) function field_bytes(self)
        class(decomposition), intent(in) :: self

        field_bytes = element_bytes*product(self%extent + 2*self%halo)
    end function field_bytes

    !> Bytes all ranks write together.
    elemental integer(int64) function global_bytes(self)
        class(decomposition), intent(in) :: self

        global_bytes = element_bytes*product(self%global)
    end function global_bytes

    !> The grid whose blocks of a global array have the least surface; x gets the larger factor
    !> of equals, as MPI_Dims_create orders them. Zeros if no grid leaves each rank an element.
    !>
    !> The surface of a block is proportional to P/nx + Q/ny + R/nz.
    pure function automatic_grid(writers, global) result(grid)
        integer(int64), intent(in) :: writers, global(3)
        integer(int64) :: grid(3)

        integer(int64) :: p, q, r
        real(real64) :: surface, least

        grid = 0
        least = huge(least)
        do p = writers, 1, -1
            if (mod(writers, p) /= 0 .or. p > global(1)) cycle
            do q = writers/p, 1, -1
                if (mod(writers/p, q) /= 0 .or. q > global(2)) cycle
                r = writers/p/q
                if (r > global(3)) cycle
                surface = sum(real([p, q, r], real64)/real(global, real64))
                ! Not equal but for rounding: the order of the loops then decides.
                if (surface < least*(1 - 1.0e-12_real64)) then
                    least = surface
                    grid = [p, q, r]
                end if
            end do
        end do
    end function automatic_grid

    !> Whether the product of positive factors is at most the largest 64-bit integer.
    pure logical function fits_in_int64(factors) result(fits)
        integer(int64), intent(in) :: factors(:)

        integer(int64) :: room
        integer :: i

        room = huge(room)
        do i = 1, size(factors)
            room = room/factors(i)
        end do
        fits = room >= 1
    end function fits_in_int64

end module benchio_decomposition
