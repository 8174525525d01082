!> Parallel NetCDF-4 from Fortran: the variable "data(z, y, x)", contiguous, collective access.
!>
!> NetCDF selects in the file only. A halo therefore costs a copy of each piece, timed as packing:
!> passing an array section would make the compiler copy it inside the call.
module benchio_netcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use netcdf, only: nf90_close, nf90_collective, nf90_create, nf90_def_dim, nf90_def_var, &
        nf90_def_var_fill, nf90_double, nf90_enddef, nf90_get_var, nf90_independent, &
        nf90_inq_libvers, nf90_inq_varid, nf90_mpiio, nf90_netcdf4, nf90_noclobber, nf90_noerr, &
        nf90_nowrite, nf90_open, nf90_put_var, nf90_strerror, nf90_sync, nf90_var_par_access
    use benchio_backend, only: backend, placement
    use benchio_failure, only: exit_io, failure
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: dataset_place
#endif
    use benchio_settings, only: info_of
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    public :: netcdf_version

    character(*), parameter :: variable_name = 'data'

    type, extends(backend), public :: netcdf_backend
        private
        integer :: file = -1, variable = -1
    contains
        procedure :: open_file
        procedure :: define
        procedure :: select_block
        procedure :: move_piece
        procedure :: flush
        procedure :: close
        procedure :: locate
    end type netcdf_backend

contains

    function netcdf_version() result(text)
        character(:), allocatable :: text

        text = trim(nf90_inq_libvers())
        text = text(:index(text//' ', ' ') - 1)     ! without its build date
    end function netcdf_version

    !> NetCDF-C up to 4.6.1 takes the parallel driver only where NF90_MPIIO asks for it.
    subroutine open_file(self, writes, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        info = info_of(self%settings)
        if (writes) then
            call check(self, nf90_create(self%path, ior(nf90_mpiio, ior(nf90_netcdf4, &
                nf90_noclobber)), self%file, comm=self%comm%mpi_val, info=info%mpi_val), &
                'nf90_create', error)
        else
            call check(self, nf90_open(self%path, ior(nf90_mpiio, nf90_nowrite), self%file, &
                comm=self%comm%mpi_val, info=info%mpi_val), 'nf90_open', error)
        end if
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        if (writes .or. error%failed()) return
        call check(self, nf90_inq_varid(self%file, variable_name, self%variable), &
            'nf90_inq_varid', error)
        call set_access(self, error)
    end subroutine open_file

    subroutine define(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        integer :: chunk(3), dimensions(3), i

        do i = 1, 3
            call check(self, nf90_def_dim(self%file, names(i), int(self%global(i)), &
                dimensions(i)), 'nf90_def_dim', error)
        end do
        if (all(self%settings%chunk > 0)) then
            chunk = int(min(self%settings%chunk, self%global))
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

    subroutine select_block(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        associate (cannot_fail => error)
        end associate
        self%packs = self%block%halo > 0
    end subroutine select_block

    subroutine move_piece(self, writes, part, memory, room, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        integer :: start(3), count(3)

        associate (contiguous => room)      ! packed, or without halo
        end associate
        start = int(self%block%lower + part%before + 1)
        count = int(part%extent)
        if (writes) then
            call check(self, nf90_put_var(self%file, self%variable, memory(:part%elements()), &
                start=start, count=count), 'nf90_put_var', error)
        else
            call check(self, nf90_get_var(self%file, self%variable, memory(:part%elements()), &
                start=start, count=count), 'nf90_get_var', error)
        end if
    end subroutine move_piece

    subroutine flush(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_sync(self%file), 'nf90_sync', error)
    end subroutine flush

    subroutine close(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nf90_close(self%file), 'nf90_close', error)
        call self%buffer%free()
    end subroutine close

    !> A NetCDF-4 file is an HDF5 file, and only HDF5 says where its bytes are.
    subroutine locate(self, place, error)
        class(netcdf_backend), intent(inout) :: self
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

#ifdef BENCHIO_HDF5
        call dataset_place(self%path, variable_name, self%settings, place, error)
#else
        associate (unused => self, cannot_fail => error)
        end associate
        place%is_contiguous = .false.
#endif
    end subroutine locate

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
