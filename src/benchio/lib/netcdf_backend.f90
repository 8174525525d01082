!> Parallel NetCDF-4 from Fortran: the variable "data(z, y, x)", contiguous, collective access.
!>
!> NetCDF has no selection in memory, and passing an array section would make the compiler copy
!> the whole block inside the clock; so bounded slabs are packed into one buffer, timed.
module benchio_netcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_IN_PLACE, MPI_Info, MPI_Info_free, &
        MPI_INFO_NULL, MPI_INTEGER8, MPI_MAX, operator(/=)
    use netcdf, only: nf90_close, nf90_collective, nf90_create, nf90_def_dim, nf90_def_var, &
        nf90_def_var_fill, nf90_double, nf90_enddef, nf90_get_var, nf90_independent, &
        nf90_inq_libvers, nf90_inq_varid, nf90_netcdf4, nf90_noclobber, nf90_noerr, &
        nf90_nowrite, nf90_open, nf90_put_var, nf90_strerror, nf90_sync, nf90_var_par_access
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_clock, only: now
    use benchio_failure, only: exit_io, failure
    use benchio_settings, only: info_of, io_settings
    use benchio_slabs, only: new_slabs, pack_box, slabs, unpack_box
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
        type(io_settings) :: settings
        character(:), allocatable :: path
        type(MPI_Comm) :: comm
        integer :: file = -1, variable = -1
        type(slabs) :: cut                          !! of this rank's block
        integer(int64) :: slabs = 0                 !! of the rank that has most
        real(real64), allocatable :: buffer(:)
    contains
        procedure :: create
        procedure :: define
        procedure :: select
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

    subroutine create(self, path, global, comm, settings, error)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        call prepare(self, path, global, comm, settings)
        info = info_of(settings)
        call check(self, nf90_create(path, ior(nf90_netcdf4, nf90_noclobber), self%file, &
            comm=comm%mpi_val, info=info%mpi_val), 'nf90_create', error)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
    end subroutine create

    subroutine define(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        integer :: chunk(3), dimensions(3), i

        do i = 1, 3
            call check(self, nf90_def_dim(self%file, names(i), int(self%block%global(i)), &
                dimensions(i)), 'nf90_def_dim', error)
        end do
        if (all(self%settings%chunk > 0)) then
            chunk = int(min(self%settings%chunk, self%block%global))
            call check(self, nf90_def_var(self%file, variable_name, nf90_double, dimensions, &
                self%variable, chunksizes=chunk), 'nf90_def_var', error)
        else
            call check(self, nf90_def_var(self%file, variable_name, nf90_double, dimensions, &
                self%variable, contiguous=.true.), 'nf90_def_var', error)
        end if
        call check(self, nf90_def_var_fill(self%file, self%variable, 1, 0.0_real64), &
            'nf90_def_var_fill', error)
        call check(self, nf90_enddef(self%file), 'nf90_enddef', error)
        call set_access(self, error)
    end subroutine define

    subroutine select(self, block, error)
        class(netcdf_backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        if (error%failed()) return
        self%block = block
        self%cut = new_slabs(block%extent, slab_bytes)
        self%slabs = self%cut%number_of()
        call MPI_Allreduce(MPI_IN_PLACE, self%slabs, 1, MPI_INTEGER8, MPI_MAX, self%comm)
        if (allocated(self%buffer)) deallocate (self%buffer)
        allocate (self%buffer(product(self%cut%slab)))
    end subroutine select

    subroutine write(self, field, error)
        class(netcdf_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, before(3), extent(3)
        integer :: start(3), count(3)
        real(real64) :: start_of_copy

        do slab = 1, self%slabs     ! collective calls: every rank makes all, even after a failure
            call slab_bounds(self, slab, before, extent, start, count)
            start_of_copy = now()
            call pack_box(field, before, extent, self%buffer)
            self%pack_seconds = self%pack_seconds + (now() - start_of_copy)
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

    subroutine open(self, path, global, comm, settings, error)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        call prepare(self, path, global, comm, settings)
        info = info_of(settings)
        call check(self, nf90_open(path, nf90_nowrite, self%file, comm=comm%mpi_val, &
            info=info%mpi_val), 'nf90_open', error)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        if (error%failed()) return
        call check(self, nf90_inq_varid(self%file, variable_name, self%variable), &
            'nf90_inq_varid', error)
        call set_access(self, error)
    end subroutine open

    subroutine read(self, field, error)
        class(netcdf_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: slab, before(3), extent(3)
        integer :: start(3), count(3)
        real(real64) :: start_of_copy

        do slab = 1, self%slabs
            call slab_bounds(self, slab, before, extent, start, count)
            call check(self, nf90_get_var(self%file, self%variable, self%buffer, start=start, &
                count=count), 'nf90_get_var', error)
            if (error%failed()) cycle
            start_of_copy = now()
            call unpack_box(self%buffer, before, extent, field)
            self%pack_seconds = self%pack_seconds + (now() - start_of_copy)
        end do
    end subroutine read

    subroutine prepare(self, path, global, comm, settings)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings

        self%path = path
        self%block%global = global
        self%comm = comm
        self%settings = settings
    end subroutine prepare

    !> Collective or independent transfer; NetCDF's default is independent.
    subroutine set_access(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (error%failed()) return
        call check(self, nf90_var_par_access(self%file, self%variable, merge(nf90_collective, &
            nf90_independent, self%settings%collective)), 'nf90_var_par_access', error)
    end subroutine set_access

    !> A slab's first element in the file, from 1, and its extents for NetCDF; past this rank's last
    !> slab the extents are zero, for the collective call that others still make.
    pure subroutine slab_bounds(self, slab, before, extent, start, count)
        class(netcdf_backend), intent(in) :: self
        integer(int64), intent(in) :: slab
        integer(int64), intent(out) :: before(3)    !! elements of the field before the slab
        integer(int64), intent(out) :: extent(3)
        integer, intent(out) :: start(3), count(3)

        call self%cut%bounds(slab, before, extent)
        start = int(self%block%lower + before + 1)
        count = int(extent)
        before = self%block%halo + before
    end subroutine slab_bounds

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
