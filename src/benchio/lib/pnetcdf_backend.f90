!> PnetCDF: the variable "data(z, y, x)" in the classic format with 64-bit sizes, CDF-5, which is
!> big-endian: the library swaps the bytes inside its calls. Fill values are off unless asked for.
module benchio_pnetcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Info_free, MPI_INFO_NULL, MPI_OFFSET_KIND, &
        operator(/=)
    use pnetcdf, only: nf90_64bit_data, nf90_double, nf90_noclobber, nf90_noerr, nf90_nowrite, &
        nf90mpi_begin_indep_data, nf90mpi_close, nf90mpi_create, nf90mpi_def_dim, &
        nf90mpi_def_var, nf90mpi_enddef, nf90mpi_inq_file_info, nf90mpi_inq_libvers, &
        nf90mpi_inq_varid, nf90mpi_open, nf90mpi_strerror, nf90mpi_sync, nfmpi_get_vara_double, &
        nfmpi_get_vara_double_all, nfmpi_put_vara_double, nfmpi_put_vara_double_all
    use benchio_failure, only: exit_io, failure
    use benchio_packed_backend, only: packed_backend
    use benchio_settings, only: hint, info_of, io_settings, list_hints
    implicit none (type, external)
    private

    public :: pnetcdf_version

    character(*), parameter :: variable_name = 'data'

    type, extends(packed_backend), public :: pnetcdf_backend
        private
        integer :: file = -1, variable = -1
        type(hint), allocatable :: echo(:)
    contains
        procedure :: create
        procedure :: define
        procedure :: put_slab
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: get_slab
        procedure :: echoed_hints
    end type pnetcdf_backend

contains

    function pnetcdf_version() result(text)
        character(:), allocatable :: text

        text = trim(adjustl(nf90mpi_inq_libvers()))
        text = text(:index(text//' ', ' ') - 1)     ! without its release date
    end function pnetcdf_version

    subroutine create(self, path, global, comm, settings, error)
        class(pnetcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        call self%prepare(path, global, comm, settings)
        info = info_of(settings)
        call check(self, nf90mpi_create(comm%mpi_val, path, ior(nf90_64bit_data, nf90_noclobber), &
            info%mpi_val, self%file), 'nf90mpi_create', error)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
    end subroutine create

    subroutine define(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        integer :: dimensions(3), i

        do i = 1, 3
            call check(self, nf90mpi_def_dim(self%file, names(i), self%block%global(i), &
                dimensions(i)), 'nf90mpi_def_dim', error)
        end do
        call check(self, nf90mpi_def_var(self%file, variable_name, nf90_double, dimensions, &
            self%variable), 'nf90mpi_def_var', error)
        if (self%settings%alignment > 1) then
            call check(self, nf90mpi_enddef(self%file, v_align=self%settings%alignment), &
                'nf90mpi_enddef', error)
        else
            call check(self, nf90mpi_enddef(self%file), 'nf90mpi_enddef', error)
        end if
        call keep_hints(self, error)
        call set_access(self, error)
    end subroutine define

    subroutine put_slab(self, lower, extent, error)
        class(pnetcdf_backend), intent(inout) :: self
        integer(int64), intent(in) :: lower(3), extent(3)
        type(failure), intent(inout) :: error

        integer(MPI_OFFSET_KIND) :: start(3), count(3)

        start = lower + 1
        count = extent
        if (self%settings%collective) then
            call check(self, nfmpi_put_vara_double_all(self%file, self%variable, start, count, &
                self%buffer), 'nfmpi_put_vara_double_all', error)
        else if (all(count > 0)) then
            call check(self, nfmpi_put_vara_double(self%file, self%variable, start, count, &
                self%buffer), 'nfmpi_put_vara_double', error)
        end if
    end subroutine put_slab

    subroutine sync(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90mpi_sync(self%file), 'nf90mpi_sync', error)
    end subroutine sync

    subroutine close(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90mpi_close(self%file), 'nf90mpi_close', error)
        call self%free_buffer()
    end subroutine close

    subroutine open(self, path, global, comm, settings, error)
        class(pnetcdf_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        call self%prepare(path, global, comm, settings)
        info = info_of(settings)
        call check(self, nf90mpi_open(comm%mpi_val, path, nf90_nowrite, info%mpi_val, self%file), &
            'nf90mpi_open', error)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        if (error%failed()) return
        call check(self, nf90mpi_inq_varid(self%file, variable_name, self%variable), &
            'nf90mpi_inq_varid', error)
        call keep_hints(self, error)
        call set_access(self, error)
    end subroutine open

    subroutine get_slab(self, lower, extent, error)
        class(pnetcdf_backend), intent(inout) :: self
        integer(int64), intent(in) :: lower(3), extent(3)
        type(failure), intent(inout) :: error

        integer(MPI_OFFSET_KIND) :: start(3), count(3)

        start = lower + 1
        count = extent
        if (self%settings%collective) then
            call check(self, nfmpi_get_vara_double_all(self%file, self%variable, start, count, &
                self%buffer), 'nfmpi_get_vara_double_all', error)
        else if (all(count > 0)) then
            call check(self, nfmpi_get_vara_double(self%file, self%variable, start, count, &
                self%buffer), 'nfmpi_get_vara_double', error)
        end if
    end subroutine get_slab

    function echoed_hints(self) result(hints)
        class(pnetcdf_backend), intent(in) :: self
        type(hint), allocatable :: hints(:)

        if (allocated(self%echo)) then
            hints = self%echo
        else
            allocate (hints(0))
        end if
    end function echoed_hints

    !> What the open file repeats of its hints, PnetCDF's own among them.
    subroutine keep_hints(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        if (error%failed()) return
        call check(self, nf90mpi_inq_file_info(self%file, info%mpi_val), 'nf90mpi_inq_file_info', &
            error)
        if (error%failed()) return
        call list_hints(info, self%echo)
        call MPI_Info_free(info)
    end subroutine keep_hints

    !> Collective or independent transfer; PnetCDF's default is collective. The call itself is
    !> collective: a rank that failed makes it too.
    subroutine set_access(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%settings%collective) return
        call check(self, nf90mpi_begin_indep_data(self%file), 'nf90mpi_begin_indep_data', error)
    end subroutine set_access

    !> Records an unsuccessful return code of a PnetCDF call.
    subroutine check(self, code, call, error)
        class(pnetcdf_backend), intent(in) :: self
        integer, intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        if (code == nf90_noerr) return
        call error%set(exit_io, call, self%path, trim(nf90mpi_strerror(code)))
    end subroutine check

end module benchio_pnetcdf_backend
