!> Parallel NetCDF-4 from Fortran: the variable "data(z, y, x)", contiguous, collective access.
module benchio_netcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use netcdf, only: nf90_close, nf90_collective, nf90_create, nf90_def_dim, nf90_def_var, &
        nf90_def_var_fill, nf90_double, nf90_enddef, nf90_get_var, nf90_independent, &
        nf90_inq_libvers, nf90_inq_varid, nf90_netcdf4, nf90_noclobber, nf90_noerr, &
        nf90_nowrite, nf90_open, nf90_put_var, nf90_strerror, nf90_sync, nf90_var_par_access
    use benchio_failure, only: exit_io, failure
    use benchio_packed_backend, only: packed_backend
    use benchio_settings, only: info_of, io_settings
    implicit none (type, external)
    private

    public :: netcdf_version

    character(*), parameter :: variable_name = 'data'

    type, extends(packed_backend), public :: netcdf_backend
        private
        integer :: file = -1, variable = -1
    contains
        procedure :: create
        procedure :: define
        procedure :: put_slab
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: get_slab
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

        call self%prepare(path, global, comm, settings)
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

    subroutine put_slab(self, lower, extent, error)
        class(netcdf_backend), intent(inout) :: self
        integer(int64), intent(in) :: lower(3), extent(3)
        type(failure), intent(inout) :: error

        integer :: start(3), count(3)

        start = int(lower + 1)
        count = int(extent)
        call check(self, nf90_put_var(self%file, self%variable, self%buffer, start=start, &
            count=count), 'nf90_put_var', error)
    end subroutine put_slab

    subroutine sync(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_sync(self%file), 'nf90_sync', error)
    end subroutine sync

    subroutine close(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_close(self%file), 'nf90_close', error)
        call self%free_buffer()
    end subroutine close

    subroutine open(self, path, global, comm, settings, error)
        class(netcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        call self%prepare(path, global, comm, settings)
        info = info_of(settings)
        call check(self, nf90_open(path, nf90_nowrite, self%file, comm=comm%mpi_val, &
            info=info%mpi_val), 'nf90_open', error)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        if (error%failed()) return
        call check(self, nf90_inq_varid(self%file, variable_name, self%variable), &
            'nf90_inq_varid', error)
        call set_access(self, error)
    end subroutine open

    subroutine get_slab(self, lower, extent, error)
        class(netcdf_backend), intent(inout) :: self
        integer(int64), intent(in) :: lower(3), extent(3)
        type(failure), intent(inout) :: error

        integer :: start(3), count(3)

        start = int(lower + 1)
        count = int(extent)
        call check(self, nf90_get_var(self%file, self%variable, self%buffer, start=start, &
            count=count), 'nf90_get_var', error)
    end subroutine get_slab

    !> Collective or independent transfer; NetCDF's default is independent.
    subroutine set_access(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (error%failed()) return
        call check(self, nf90_var_par_access(self%file, self%variable, merge(nf90_collective, &
            nf90_independent, self%settings%collective)), 'nf90_var_par_access', error)
    end subroutine set_access

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
