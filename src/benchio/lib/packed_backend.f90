!> What libraries without a selection in memory share: packing.
!>
!> Passing an array section would make the compiler copy the whole block inside the clock; so
!> bounded slabs are packed into one buffer, timed. Extend it by put_slab and get_slab.
module benchio_packed_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_IN_PLACE, MPI_INTEGER8, MPI_MAX
    use benchio_backend, only: backend
    use benchio_clock, only: now
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    use benchio_settings, only: io_settings
    use benchio_slabs, only: new_slabs, pack_box, slabs, unpack_box
    implicit none (type, external)
    private

    !> Bounds the extra memory of a rank; the largest that keeps OMPIO, which buffers a multiple of
    !> it, within 1.10 fields + 96 MiB.
    integer(int64), parameter :: slab_bytes = 4*2_int64**20

    type, abstract, extends(backend), public :: packed_backend
        type(decomposition) :: block
        type(io_settings) :: settings
        character(:), allocatable :: path
        type(MPI_Comm) :: comm
        real(real64), allocatable :: buffer(:)      !! a slab, without halo
        type(slabs), private :: cut                 !! of this rank's block
        integer(int64), private :: slabs = 0        !! of the rank that has most
    contains
        procedure(move_slab), deferred :: put_slab
        procedure(move_slab), deferred :: get_slab
        procedure :: prepare                        !! for create and open
        procedure :: select
        procedure :: write
        procedure :: read
        procedure :: free_buffer                    !! for close
        procedure, private :: slab_bounds
    end type packed_backend

    abstract interface
        !> Writes the slab in the buffer, or reads one into it; every rank does so at once, by
        !> collective calls even after a failure.
        subroutine move_slab(self, lower, extent, error)
            import :: failure, int64, packed_backend
            class(packed_backend), intent(inout) :: self
            integer(int64), intent(in) :: lower(3)      !! elements of the file before the slab
            integer(int64), intent(in) :: extent(3)     !! 0: only others still have a slab
            type(failure), intent(inout) :: error
        end subroutine move_slab
    end interface

contains

    subroutine prepare(self, path, global, comm, settings)
        class(packed_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings

        self%path = path
        self%block%global = global
        self%comm = comm
        self%settings = settings
    end subroutine prepare

    subroutine select(self, block, error)
        class(packed_backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        ! The others do not know yet who failed in define, and wait in the collective call.
        associate (unused => error)
        end associate
        self%block = block
        self%cut = new_slabs(block%extent, slab_bytes)
        self%slabs = self%cut%number_of()
        call MPI_Allreduce(MPI_IN_PLACE, self%slabs, 1, MPI_INTEGER8, MPI_MAX, self%comm)
        call self%free_buffer()
        allocate (self%buffer(product(self%cut%slab)))
    end subroutine select

    subroutine write(self, field, error)
        class(packed_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, before(3), extent(3), lower(3)
        real(real64) :: start_of_copy

        do slab = 1, self%slabs     ! collective calls: every rank makes all, even after a failure
            call self%slab_bounds(slab, before, extent, lower)
            start_of_copy = now()
            call pack_box(field, before, extent, self%buffer)
            self%pack_seconds = self%pack_seconds + (now() - start_of_copy)
            call self%put_slab(lower, extent, error)
        end do
    end subroutine write

    subroutine read(self, field, error)
        class(packed_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, before(3), extent(3), lower(3)
        real(real64) :: start_of_copy

        do slab = 1, self%slabs
            call self%slab_bounds(slab, before, extent, lower)
            call self%get_slab(lower, extent, error)
            if (error%failed()) cycle
            start_of_copy = now()
            call unpack_box(self%buffer, before, extent, field)
            self%pack_seconds = self%pack_seconds + (now() - start_of_copy)
        end do
    end subroutine read

    subroutine free_buffer(self)
        class(packed_backend), intent(inout) :: self

        if (allocated(self%buffer)) deallocate (self%buffer)
    end subroutine free_buffer

    !> Where a slab is; past this rank's last slab its extents are zero.
    pure subroutine slab_bounds(self, slab, before, extent, lower)
        class(packed_backend), intent(in) :: self
        integer(int64), intent(in) :: slab
        integer(int64), intent(out) :: before(3)    !! elements of the field before the slab
        integer(int64), intent(out) :: extent(3)
        integer(int64), intent(out) :: lower(3)     !! elements of the file before the slab

        call self%cut%bounds(slab, before, extent)
        lower = self%block%lower + before
        before = self%block%halo + before
    end subroutine slab_bounds

end module benchio_packed_backend
