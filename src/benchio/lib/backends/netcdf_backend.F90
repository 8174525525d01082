!> Parallel NetCDF-4: the variable "data(z, y, x)", contiguous, collective access; of several time
!> steps each variable is "(time, z, y, x)", and time is unlimited.
!>
!> The C interface is called: many distributions have NetCDF-Fortran over a serial NetCDF alone, and
!> it only passes on what it is given. NetCDF selects in the file only. A halo therefore costs a
!> copy of each piece, timed as packing.
module benchio_netcdf_backend
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_f_pointer, &
        c_f_procpointer, c_funptr, c_int, c_null_char, c_null_ptr, c_ptr, c_size_t
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use benchio_backend, only: backend, cannot, mpi_path_objection, placement
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: exit_io, exit_not_built_in, failure
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: dataset_place
#endif
    use benchio_posix, only: fortran_text
    use benchio_settings, only: info_of, io_settings
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    ! As netcdf.h has them.
    integer(c_int), parameter :: nc_noerr = 0, nc_nowrite = 0, nc_noclobber = 4, &
        nc_netcdf4 = 4096, nc_mpiio = 8192, nc_double = 6, nc_nofill = 1, nc_shuffle = 1, &
        nc_deflate = 1, nc_chunked = 0, nc_contiguous = 1, nc_independent = 0, nc_collective = 1, &
        nc_granular_bit_round = 2
    integer(c_size_t), parameter :: nc_unlimited = 0

    ! Dimensions, chunks and corners are in the order of C.
    abstract interface
        integer(c_int) function opener(path, mode, comm, info, file) bind(C)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int), value :: mode, comm, info   ! handles of Fortran
            integer(c_int), intent(out) :: file
        end function opener

        integer(c_int) function of_file(file) bind(C)
            import :: c_int
            integer(c_int), value :: file
        end function of_file

        integer(c_int) function vara(file, variable, start, count, memory) bind(C)
            import :: c_double, c_int, c_size_t
            integer(c_int), value :: file, variable
            integer(c_size_t), intent(in) :: start(*), count(*)
            real(c_double), intent(inout) :: memory(*)
        end function vara

        ! NetCDF-C has it since 4.9. It is looked for when benchio runs.
        integer(c_int) function quantizer(file, variable, mode, digits) bind(C)
            import :: c_int
            integer(c_int), value :: file, variable, mode, digits
        end function quantizer
    end interface

    procedure(opener), bind(C) :: nc_create_par_fortran, nc_open_par_fortran
    procedure(of_file), bind(C) :: nc_close, nc_enddef, nc_sync
    procedure(vara), bind(C) :: nc_get_vara_double, nc_put_vara_double

    interface
        integer(c_int) function nc_def_dim(file, name, length, dimension) bind(C)
            import :: c_char, c_int, c_size_t
            integer(c_int), value :: file
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: length
            integer(c_int), intent(out) :: dimension
        end function nc_def_dim

        integer(c_int) function nc_def_var(file, name, type, rank, dimensions, variable) bind(C)
            import :: c_char, c_int
            integer(c_int), value :: file, type, rank
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(in) :: dimensions(*)
            integer(c_int), intent(out) :: variable
        end function nc_def_var

        integer(c_int) function nc_def_var_chunking(file, variable, storage, chunk) bind(C)
            import :: c_int, c_size_t
            integer(c_int), value :: file, variable, storage
            integer(c_size_t), intent(in) :: chunk(*)
        end function nc_def_var_chunking

        integer(c_int) function nc_def_var_deflate(file, variable, shuffle, deflate, level) bind(C)
            import :: c_int
            integer(c_int), value :: file, variable, shuffle, deflate, level
        end function nc_def_var_deflate

        integer(c_int) function nc_def_var_fill(file, variable, mode, fill) bind(C)
            import :: c_int, c_ptr
            integer(c_int), value :: file, variable, mode
            type(c_ptr), value :: fill
        end function nc_def_var_fill

        integer(c_int) function nc_inq_varid(file, name, variable) bind(C)
            import :: c_char, c_int
            integer(c_int), value :: file
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(out) :: variable
        end function nc_inq_varid

        integer(c_int) function nc_var_par_access(file, variable, access) bind(C)
            import :: c_int
            integer(c_int), value :: file, variable, access
        end function nc_var_par_access

        type(c_ptr) function nc_inq_libvers() bind(C)
            import :: c_ptr
        end function nc_inq_libvers

        type(c_ptr) function nc_strerror(code) bind(C)
            import :: c_int, c_ptr
            integer(c_int), value :: code
        end function nc_strerror

        integer(c_size_t) function strlen(text) bind(C)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function strlen

        type(c_funptr) function dlsym(everywhere, name) bind(C)
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: everywhere
            character(kind=c_char), intent(in) :: name(*)
        end function dlsym
    end interface

    type, extends(backend), public :: netcdf_backend
        private
        integer(c_int) :: file = -1
        integer(c_int), allocatable :: variables(:)
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure, nopass :: path_objection
        procedure, nopass :: packs
        procedure, nopass :: locate
        procedure :: open_in_library
        procedure :: define
        procedure :: move_piece
        procedure :: flush
        procedure :: close
    end type netcdf_backend

contains

    function version() result(text)
        character(:), allocatable :: text

        text = copied(nc_inq_libvers())
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
            call cannot(error, settings%alignment > 1, 'NetCDF aligns nothing: leave out ' &
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

    !> NetCDF up to 4.6.1 takes the parallel driver only where NF90_MPIIO asks for it.
    subroutine open_in_library(self, writes, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        info = info_of(self%settings)
        if (writes) then
            call check(self, nc_create_par_fortran(self%path//c_null_char, ior(nc_mpiio, &
                ior(nc_netcdf4, nc_noclobber)), self%comm%mpi_val, info%mpi_val, self%file), &
                'nc_create_par', error)
        else
            call check(self, nc_open_par_fortran(self%path//c_null_char, ior(nc_mpiio, &
                nc_nowrite), self%comm%mpi_val, info%mpi_val, self%file), 'nc_open_par', error)
        end if
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        allocate (self%variables(self%settings%access%variables), source=-1_c_int)
    end subroutine open_in_library

    subroutine define(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: i

        if (self%writes) call define_new(self, error)
        do i = 1, merge(0, size(self%variables), self%writes)
            call check(self, nc_inq_varid(self%file, self%settings%access%variable_name(i) &
                //c_null_char, self%variables(i)), 'nc_inq_varid', error)
        end do
        call set_access(self, error)
    end subroutine define

    subroutine define_new(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(4), parameter :: names(4) = [character(4) :: 'time', 'z', 'y', 'x']
        integer(int64) :: chunk(3), layer(3)
        integer(c_size_t) :: chunks(4), lengths(4)
        integer(c_int) :: dimensions(4), rank
        integer :: first, i

        layer = self%block%layer()
        lengths(1) = nc_unlimited
        lengths(2:) = layer(3:1:-1)
        chunk = self%chunk()
        chunks(1) = 1
        chunks(2:) = chunk(3:1:-1)
        associate (access => self%settings%access)
            rank = merge(4, 3, access%steps > 1)
            first = 5 - rank
            do i = 4, first, -1
                call check(self, nc_def_dim(self%file, trim(names(i))//c_null_char, lengths(i), &
                    dimensions(i)), 'nc_def_dim', error)
            end do
            do i = 1, size(self%variables)
                call check(self, nc_def_var(self%file, access%variable_name(i)//c_null_char, &
                    nc_double, rank, dimensions(first:), self%variables(i)), 'nc_def_var', error)
                call check(self, nc_def_var_chunking(self%file, self%variables(i), &
                    merge(nc_chunked, nc_contiguous, all(chunk > 0)), chunks(first:)), &
                    'nc_def_var_chunking', error)
                call check(self, nc_def_var_fill(self%file, self%variables(i), nc_nofill, &
                    c_null_ptr), 'nc_def_var_fill', error)
                if (access%deflate > 0) call check(self, nc_def_var_deflate(self%file, &
                    self%variables(i), nc_shuffle, nc_deflate, access%deflate), &
                    'nc_def_var_deflate', error)
                if (access%quantize > 0) call quantize(self, self%variables(i), error)
            end do
        end associate
        call check(self, nc_enddef(self%file), 'nc_enddef', error)
    end subroutine define_new

    !> NetCDF selects in the file only.
    pure logical function packs(block, settings)
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        packs = block%halo > 0
    end function packs

    subroutine move_piece(self, writes, part, memory, room, error)
        class(netcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        integer(int64) :: corner(4), extent(4)
        integer(c_size_t) :: lengths(4), start(4)
        integer :: first, number

        call self%find_piece(part, number, corner, extent)
        start = corner(4:1:-1)
        lengths = extent(4:1:-1)
        first = merge(1, 2, self%settings%access%steps > 1)
        if (writes) then
            call check(self, nc_put_vara_double(self%file, self%variables(number), start(first:), &
                lengths(first:), memory), 'nc_put_vara_double', error)
        else
            call check(self, nc_get_vara_double(self%file, self%variables(number), start(first:), &
                lengths(first:), memory), 'nc_get_vara_double', error)
        end if
    end subroutine move_piece

    subroutine flush(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nc_sync(self%file), 'nc_sync', error)
    end subroutine flush

    subroutine close(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self, nc_close(self%file), 'nc_close', error)
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
        integer(c_int), intent(in) :: variable
        type(failure), intent(inout) :: error

        procedure(quantizer), pointer :: nc_def_var_quantize

        call c_f_procpointer(found_quantizer(), nc_def_var_quantize)
        call check(self, nc_def_var_quantize(self%file, variable, nc_granular_bit_round, &
            self%settings%access%quantize), 'nc_def_var_quantize', error)
    end subroutine quantize

    !> Collective or independent transfer; NetCDF's default is independent.
    subroutine set_access(self, error)
        class(netcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: i

        if (error%failed()) return
        do i = 1, size(self%variables)
            call check(self, nc_var_par_access(self%file, self%variables(i), &
                merge(nc_collective, nc_independent, self%settings%collective)), &
                'nc_var_par_access', error)
        end do
    end subroutine set_access

    !> Records an unsuccessful return code of a NetCDF call.
    subroutine check(self, code, call, error)
        class(netcdf_backend), intent(in) :: self
        integer(c_int), intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        if (code == nc_noerr) return
        call error%set(exit_io, call, self%path, copied(nc_strerror(code)))
    end subroutine check

    !> Copies a text of the library.
    function copied(text)
        type(c_ptr), intent(in) :: text
        character(:), allocatable :: copied

        character(kind=c_char), pointer :: letters(:)
        integer(c_size_t) :: length(1)

        length = strlen(text)
        call c_f_pointer(text, letters, length)
        copied = fortran_text(letters)
    end function copied

end module benchio_netcdf_backend
