!> Parallel NetCDF-4 from Fortran: the variable "data(z, y, x)", contiguous, collective access; of
!> several time steps each variable is "(time, z, y, x)", and time is unlimited.
!>
!> NetCDF selects in the file only. A halo therefore costs a copy of each piece, timed as packing:
!> passing an array section would make the compiler copy it inside the call.
module benchio_netcdf_backend
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funptr, c_int, &
        c_null_char, c_null_ptr, c_ptr
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use netcdf, only: nf90_close, nf90_collective, nf90_create, nf90_def_dim, nf90_def_var, &
        nf90_def_var_deflate, nf90_def_var_fill, nf90_double, nf90_enddef, nf90_get_var, &
        nf90_independent, nf90_inq_libvers, nf90_inq_varid, nf90_mpiio, nf90_netcdf4, &
        nf90_noclobber, nf90_noerr, nf90_nowrite, nf90_open, nf90_put_var, nf90_strerror, &
        nf90_sync, nf90_unlimited, nf90_var_par_access
    use benchio_backend, only: backend, cannot, mpi_path_objection, placement
    use benchio_failure, only: exit_io, exit_not_built_in, failure
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: dataset_place
#endif
    use benchio_settings, only: info_of, io_settings
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    ! NetCDF-C has it since 4.9, NetCDF-Fortran later. It is looked for when benchio runs: at most
    ! sites the program is linked to NetCDF-Fortran alone.
    abstract interface
        integer(c_int) function quantizer(file, variable, mode, digits) bind(C)
            import :: c_int
            integer(c_int), value :: file, variable, mode, digits
        end function quantizer
    end interface

    interface
        type(c_funptr) function dlsym(everywhere, name) bind(C, name='dlsym')
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: everywhere
            character(kind=c_char), intent(in) :: name(*)
        end function dlsym
    end interface

    type, extends(backend), public :: netcdf_backend
        private
        integer :: file = -1
        integer, allocatable :: variables(:)
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure, nopass :: path_objection
        procedure, nopass :: locate
        procedure :: open_in_library
        procedure :: define
        procedure :: select_block
        procedure :: move_piece
        procedure :: flush
        procedure :: close
    end type netcdf_backend

contains

    function version() result(text)
        character(:), allocatable :: text

        text = trim(nf90_inq_libvers())
        text = text(:index(text//' ', ' ') - 1)     ! without its build date
    end function version

    !> NetCDF-C takes paths of other systems, too.
    function path_objection(directory) result(text)
        character(*), intent(in) :: directory       !! absolute, without links
        character(:), allocatable :: text

        text = mpi_path_objection(directory)
        if (index(directory, achar(92)) > 0) text = 'NetCDF takes "'//achar(92)//'" for "/": ' &
            //'name a directory without it, or leave out the backend netcdf'
    end function path_objection

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        associate (access => settings%access, is_independent => .not. settings%collective)
            call cannot(error, settings%alignment > 1, 'NetCDF-Fortran aligns nothing: leave out ' &
                //'--alignment, or the backend netcdf')
            call cannot(error, access%deflate > 0 .and. is_independent, 'HDF5, below NetCDF, ' &
                //'compresses in collective transfers alone: --deflate excludes --collective no')
            call cannot(error, access%steps > 1 .and. is_independent, 'NetCDF extends the ' &
                //'unlimited dimension in collective transfers: --steps excludes --collective no')
            if (.not. c_associated(found_quantizer()) .and. access%quantize > 0) call error%set( &
                exit_not_built_in, '', '', 'NetCDF '//version() &
                //' does not quantize: NetCDF-C 4.9 and later do')
        end associate
        call cannot(error, settings%has_no_array, 'netcdf writes arrays, and this ' &
            //'--operation has none: leave --backend out')
        call cannot(error, settings%outlives_failures, 'netcdf can close no file after a write ' &
            //'that failed, and --targets is to go on: leave out the backend netcdf')
    end function objection

    !> NetCDF-C up to 4.6.1 takes the parallel driver only where NF90_MPIIO asks for it.
    subroutine open_in_library(self, writes, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer :: i

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
        allocate (self%variables(self%settings%access%variables), source=-1)
        if (writes .or. error%failed()) return
        do i = 1, size(self%variables)
            call check(self, nf90_inq_varid(self%file, self%settings%access%variable_name(i), &
                self%variables(i)), 'nf90_inq_varid', error)
        end do
        call set_access(self, error)
    end subroutine open_in_library

    subroutine define(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        integer, allocatable :: dimensions(:)
        integer(int64) :: chunk(3), layer(3)
        integer :: chunks(4)
        integer :: i

        layer = self%block%layer()
        associate (access => self%settings%access)
            allocate (dimensions(merge(4, 3, access%steps > 1)))
            do i = 1, 3
                call check(self, nf90_def_dim(self%file, names(i), int(layer(i)), dimensions(i)), &
                    'nf90_def_dim', error)
            end do
            if (access%steps > 1) call check(self, nf90_def_dim(self%file, 'time', nf90_unlimited, &
                dimensions(4)), 'nf90_def_dim', error)
            chunk = self%chunk()
            chunks = 1
            chunks(:3) = int(chunk)
            do i = 1, size(self%variables)
                if (all(chunk > 0)) then
                    call check(self, nf90_def_var(self%file, access%variable_name(i), nf90_double, &
                        dimensions, self%variables(i), chunksizes=chunks(:size(dimensions))), &
                        'nf90_def_var', error)
                else
                    call check(self, nf90_def_var(self%file, access%variable_name(i), nf90_double, &
                        dimensions, self%variables(i), contiguous=.true.), 'nf90_def_var', error)
                end if
                call check(self, nf90_def_var_fill(self%file, self%variables(i), 1, 0.0_real64), &
                    'nf90_def_var_fill', error)
                if (access%deflate > 0) call check(self, nf90_def_var_deflate( &
                    self%file, self%variables(i), 1, 1, access%deflate), 'nf90_def_var_deflate', &
                    error)
                if (access%quantize > 0) call quantize(self, self%variables(i), error)
            end do
        end associate
        call check(self, nf90_enddef(self%file), 'nf90_enddef', error)
        call set_access(self, error)
    end subroutine define

    subroutine select_block(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        self%packs = self%block%halo > 0
    end subroutine select_block

    subroutine move_piece(self, writes, part, memory, room, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        integer(int64) :: corner(4), extent(4)
        integer :: lengths(4), number, start(4)

        call self%find_piece(part, number, corner, extent)
        start = int(corner + 1)
        lengths = int(extent)
        if (writes) then
            call check(self, nf90_put_var(self%file, self%variables(number), &
                memory(:part%elements()), start, lengths), 'nf90_put_var', error)
        else
            call check(self, nf90_get_var(self%file, self%variables(number), &
                memory(:part%elements()), start, lengths), 'nf90_get_var', error)
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
    subroutine locate(path, settings, place, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

#ifdef BENCHIO_HDF5
        call dataset_place(path, settings, place, error)
#else
        place%is_contiguous = .false.
#endif
    end subroutine locate

    type(c_funptr) function found_quantizer()
        found_quantizer = dlsym(c_null_ptr, 'nc_def_var_quantize'//c_null_char)
    end function found_quantizer

    !> Keeps so many decimal digits of each value, and rounds the bits behind them away.
    subroutine quantize(self, variable, error)
        class(netcdf_backend), intent(inout) :: self
        integer, intent(in) :: variable
        type(failure), intent(inout) :: error

        integer(c_int), parameter :: granular_bit_round = 2
        procedure(quantizer), pointer :: nc_def_var_quantize

        call c_f_procpointer(found_quantizer(), nc_def_var_quantize)
        ! C counts variables from 0.
        call check(self, int(nc_def_var_quantize(int(self%file, c_int), int(variable - 1, c_int), &
            granular_bit_round, int(self%settings%access%quantize, c_int))), &
            'nc_def_var_quantize', error)
    end subroutine quantize

    !> Collective or independent transfer; NetCDF's default is independent.
    subroutine set_access(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: i

        if (error%failed()) return
        do i = 1, size(self%variables)
            call check(self, nf90_var_par_access(self%file, self%variables(i), &
                merge(nf90_collective, nf90_independent, self%settings%collective)), &
                'nf90_var_par_access', error)
        end do
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
