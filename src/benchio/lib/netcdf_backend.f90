!> Parallel NetCDF-4 from Fortran: the variable "data(z, y, x)", contiguous, collective access.
!>
!> NetCDF has no selection in memory, and passing an array section would make the compiler copy
!> the whole block inside the clock; so bounded slabs are packed into one buffer, timed.
module benchio_netcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_IN_PLACE, MPI_INFO_NULL, MPI_INTEGER8, &
        MPI_MAX
    use netcdf, only: nf90_close, nf90_collective, nf90_create, nf90_def_dim, nf90_def_var, &
        nf90_def_var_fill, nf90_double, nf90_enddef, nf90_get_var, nf90_inq_libvers, &
        nf90_inq_varid, nf90_netcdf4, nf90_noclobber, nf90_noerr, nf90_nowrite, nf90_open, &
        nf90_put_var, nf90_strerror, nf90_sync, nf90_var_par_access
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition, element_bytes
    use benchio_failure, only: exit_io, failure
    implicit none (type, external)
    private

    public :: netcdf_version

    character(*), parameter :: variable_name = 'data'

    !> Bounds the extra memory of a rank; the largest that keeps OMPIO, which buffers a multiple of
    !> it, within 1.10 fields + 96 MiB.
    integer(int64), parameter :: slab_bytes = 4*2_int64**20

    type, extends(backend), public :: netcdf_backend
        private
        type(decomposition) :: block
        character(:), allocatable :: path
        type(MPI_Comm) :: comm
        integer :: file = -1, variable = -1
        integer(int64) :: slab(3) = 0               !! extents of a full slab
        integer(int64) :: slabs = 0                 !! of the rank that has most
        real(real64), allocatable :: buffer(:)
    contains
        procedure :: create
        procedure :: define
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
    end type netcdf_backend

contains

    function netcdf_version() result(text)
        character(:), allocatable :: text

        text = trim(nf90_inq_libvers())
        text = text(:index(text//' ', ' ') - 1)     ! without its build date
    end function netcdf_version

    subroutine create(self, path, block, comm, error)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        self%block = block
        self%path = path
        self%comm = comm
        call check(self, nf90_create(path, ior(nf90_netcdf4, nf90_noclobber), self%file, &
            comm=comm%mpi_val, info=MPI_INFO_NULL%mpi_val), 'nf90_create', error)
    end subroutine create

    subroutine define(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        integer :: dimensions(3), i

        do i = 1, 3
            call check(self, nf90_def_dim(self%file, names(i), int(self%block%global(i)), &
                dimensions(i)), 'nf90_def_dim', error)
        end do
        call check(self, nf90_def_var(self%file, variable_name, nf90_double, dimensions, &
            self%variable, contiguous=.true.), 'nf90_def_var', error)
        call check(self, nf90_def_var_fill(self%file, self%variable, 1, 0.0_real64), &
            'nf90_def_var_fill', error)
        call check(self, nf90_enddef(self%file), 'nf90_enddef', error)
        if (error%failed()) return
        call prepare_slabs(self, error)
    end subroutine define

    subroutine write(self, field, error)
        class(netcdf_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, corner(3)
        integer :: start(3), count(3)

        do slab = 1, self%slabs     ! collective calls: every rank makes all, even after a failure
            call slab_bounds(self, slab, corner, start, count)
            call pack_slab(field, corner, count, self%buffer)
            call check(self, nf90_put_var(self%file, self%variable, self%buffer, start=start, &
                count=count), 'nf90_put_var', error)
        end do
    end subroutine write

    subroutine sync(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_sync(self%file), 'nf90_sync', error)
    end subroutine sync

    subroutine close(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_close(self%file), 'nf90_close', error)
        if (allocated(self%buffer)) deallocate (self%buffer)
    end subroutine close

    subroutine open(self, path, block, comm, error)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        self%block = block
        self%path = path
        self%comm = comm
        call check(self, nf90_open(path, nf90_nowrite, self%file, comm=comm%mpi_val, &
            info=MPI_INFO_NULL%mpi_val), 'nf90_open', error)
        if (error%failed()) return
        call check(self, nf90_inq_varid(self%file, variable_name, self%variable), &
            'nf90_inq_varid', error)
        if (error%failed()) return
        call prepare_slabs(self, error)
    end subroutine open

    subroutine read(self, field, error)
        class(netcdf_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, corner(3)
        integer :: start(3), count(3)

        do slab = 1, self%slabs
            call slab_bounds(self, slab, corner, start, count)
            call check(self, nf90_get_var(self%file, self%variable, self%buffer, start=start, &
                count=count), 'nf90_get_var', error)
            if (.not. error%failed()) call unpack_slab(self%buffer, corner, count, field)
        end do
    end subroutine read

    !> Collective access, the slab's extents, and how many calls every rank must make.
    subroutine prepare_slabs(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(int64) :: room

        call check(self, nf90_var_par_access(self%file, self%variable, nf90_collective), &
            'nf90_var_par_access', error)
        associate (n => self%block%extent)
            room = max(1_int64, slab_bytes/element_bytes/n(1))      ! rows of a slab
            self%slab(1) = n(1)
            self%slab(2) = min(n(2), room)
            self%slab(3) = 1
            if (room >= n(2)) self%slab(3) = min(n(3), room/n(2))
            self%slabs = slabs_along(self, 2)*slabs_along(self, 3)
        end associate
        call MPI_Allreduce(MPI_IN_PLACE, self%slabs, 1, MPI_INTEGER8, MPI_MAX, self%comm)
        allocate (self%buffer(product(self%slab)))
    end subroutine prepare_slabs

    pure integer(int64) function slabs_along(self, dimension)
        class(netcdf_backend), intent(in) :: self
        integer, intent(in) :: dimension

        associate (n => self%block%extent(dimension), width => self%slab(dimension))
            slabs_along = (n + width - 1)/width
        end associate
    end function slabs_along

    !> Where a slab begins in memory and in the file, both from 1, and its extents; past this
    !> rank's last slab the extents are zero, for the collective call that others still make.
    pure subroutine slab_bounds(self, slab, corner, start, count)
        class(netcdf_backend), intent(in) :: self
        integer(int64), intent(in) :: slab
        integer(int64), intent(out) :: corner(3)
        integer, intent(out) :: start(3), count(3)

        integer(int64) :: along_y, before(3)

        before = 0      ! elements of the block before the slab
        count = 0
        along_y = slabs_along(self, 2)
        if (slab <= along_y*slabs_along(self, 3)) then
            before(2) = mod(slab - 1, along_y)*self%slab(2)
            before(3) = (slab - 1)/along_y*self%slab(3)
            count = int(min(self%slab, self%block%extent - before))
        end if
        corner = self%block%halo + before + 1
        start = int(self%block%lower + before + 1)
    end subroutine slab_bounds

    pure subroutine pack_slab(field, corner, count, buffer)
        real(real64), intent(in) :: field(:, :, :)
        integer(int64), intent(in) :: corner(3)
        integer, intent(in) :: count(3)
        real(real64), intent(inout) :: buffer(:)

        integer(int64) :: y, z, to

        to = 0
        do z = corner(3), corner(3) + count(3) - 1
            do y = corner(2), corner(2) + count(2) - 1
                buffer(to + 1:to + count(1)) = field(corner(1):corner(1) + count(1) - 1, y, z)
                to = to + count(1)
            end do
        end do
    end subroutine pack_slab

    pure subroutine unpack_slab(buffer, corner, count, field)
        real(real64), intent(in) :: buffer(:)
        integer(int64), intent(in) :: corner(3)
        integer, intent(in) :: count(3)
        real(real64), intent(inout) :: field(:, :, :)

        integer(int64) :: y, z, from

        from = 0
        do z = corner(3), corner(3) + count(3) - 1
            do y = corner(2), corner(2) + count(2) - 1
                field(corner(1):corner(1) + count(1) - 1, y, z) = buffer(from + 1:from + count(1))
                from = from + count(1)
            end do
        end do
    end subroutine unpack_slab

    !> Records an unsuccessful return code of a NetCDF call.
    subroutine check(self, code, call, error)
        class(netcdf_backend), intent(in) :: self
        integer, intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        if (code == nf90_noerr) return
        call error%set(exit_io, call, self%path, trim(nf90_strerror(code)))
    end subroutine check

end module benchio_netcdf_backend
