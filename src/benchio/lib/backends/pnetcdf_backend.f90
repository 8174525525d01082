!> PnetCDF: the variable "data(z, y, x)" in the classic format with 64-bit sizes, CDF-5, which is
!> big-endian: the library swaps the bytes inside its calls. Fill values are off unless asked for.
!>
!> A halo costs no copy of ours: the flexible interface takes an MPI type of the piece in memory.
module benchio_pnetcdf_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_COMM_SELF, MPI_Datatype, MPI_DOUBLE_PRECISION, MPI_Info, &
        MPI_Info_free, MPI_INFO_NULL, MPI_OFFSET_KIND, MPI_Type_free, operator(/=)
    use pnetcdf, only: nf90_64bit_data, nf90_double, nf90_noclobber, nf90_noerr, nf90_nowrite, &
        nf90mpi_begin_indep_data, nf90mpi_close, nf90mpi_create, nf90mpi_def_dim, &
        nf90mpi_def_var, nf90mpi_enddef, nf90mpi_inq_file_info, nf90mpi_inq_libvers, &
        nf90mpi_inq_recsize, nf90mpi_inq_varid, nf90mpi_inq_varoffset, nf90mpi_open, &
        nf90mpi_strerror, nf90mpi_sync, nf90mpi_unlimited, nf90mpi_wait_all, nf90_req_all
    use benchio_access, only: access_pattern
    use benchio_backend, only: backend, cannot, placement
    use benchio_failure, only: exit_io, failure
    use benchio_settings, only: info_of, io_settings, list_hints
    use benchio_transfer, only: describe_piece, piece
    implicit none (type, external)
    private

    type, extends(backend), public :: pnetcdf_backend
        private
        integer :: file = -1
        integer, allocatable :: variables(:)
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure, nopass :: heeded
        procedure, nopass :: locate
        procedure :: complete
        procedure :: open_in_library
        procedure :: define
        procedure :: move_piece
        procedure :: flush
        procedure :: close
    end type pnetcdf_backend

    ! PnetCDF's module has only the names of its flexible interface.
    abstract interface
        integer function vara(file, variable, start, count, memory, types, kind)
            import :: MPI_OFFSET_KIND, real64
            integer, intent(in) :: file, variable, kind
            integer(MPI_OFFSET_KIND), intent(in) :: start(*), count(*), types
            real(real64), intent(inout) :: memory(*)    ! swapped in place, and back
        end function vara

        integer function posted_vara(file, variable, start, count, memory, types, kind, request)
            import :: MPI_OFFSET_KIND, real64
            integer, intent(in) :: file, variable, kind
            integer(MPI_OFFSET_KIND), intent(in) :: start(*), count(*), types
            real(real64), intent(inout) :: memory(*)    ! until it is waited for
            integer, intent(out) :: request
        end function posted_vara
    end interface

    procedure(vara) :: nfmpi_get_vara, nfmpi_get_vara_all, nfmpi_put_vara, nfmpi_put_vara_all
    procedure(posted_vara) :: nfmpi_iget_vara, nfmpi_iput_vara

contains

    function version() result(text)
        character(:), allocatable :: text

        text = trim(adjustl(nf90mpi_inq_libvers()))
        text = text(:index(text//' ', ' ') - 1)     ! without its release date
    end function version

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        associate (access => settings%access, is_independent => .not. settings%collective)
            call cannot(error, access%deflate > 0, 'PnetCDF does not compress: leave out ' &
                //'--deflate, or the backend pnetcdf')
            call cannot(error, access%is_nonblocking .and. is_independent, 'PnetCDF waits for ' &
                //'nonblocking transfers collectively: nonblocking excludes --collective no')
            call cannot(error, access%steps > 1 .and. is_independent, 'PnetCDF extends the ' &
                //'unlimited dimension in collective transfers: --steps excludes --collective no')
        end associate
        call cannot(error, settings%has_no_array, 'pnetcdf writes arrays, and this ' &
            //'--operation has none: leave --backend out')
        call cannot(error, settings%outlives_failures, 'pnetcdf can close no file after a write ' &
            //'that failed, and --targets is to go on: leave out the backend pnetcdf')
    end function objection

    !> PnetCDF has nonblocking transfers, and makes no subfiles.
    pure type(access_pattern) function heeded(access)
        type(access_pattern), intent(in) :: access

        heeded = access
        heeded%subfiles = 0
    end function heeded

    subroutine open_in_library(self, writes, error)
        class(pnetcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info

        info = info_of(self%settings)
        if (writes) then
            call check(self%path, nf90mpi_create(self%comm%mpi_val, self%path, &
                ior(nf90_64bit_data, nf90_noclobber), info%mpi_val, self%file), &
                'nf90mpi_create', error)
        else
            call check(self%path, nf90mpi_open(self%comm%mpi_val, self%path, nf90_nowrite, &
                info%mpi_val, self%file), 'nf90mpi_open', error)
        end if
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        allocate (self%variables(self%settings%access%variables), source=-1)
    end subroutine open_in_library

    subroutine define(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: i

        if (self%writes) call define_new(self, error)
        do i = 1, merge(0, size(self%variables), self%writes)
            call check(self%path, nf90mpi_inq_varid(self%file, &
                self%settings%access%variable_name(i), self%variables(i)), 'nf90mpi_inq_varid', &
                error)
        end do
        call set_access(self, error)
    end subroutine define

    !> Defines the variables, and keeps the hints that the file repeats, PnetCDF's own among them.
    subroutine define_new(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(1), parameter :: names(3) = ['x', 'y', 'z']
        type(MPI_Info) :: info
        integer, allocatable :: dimensions(:)
        integer(int64) :: layer(3)
        integer :: i

        layer = self%block%layer()
        associate (access => self%settings%access)
            allocate (dimensions(merge(4, 3, access%steps > 1)))
            do i = 1, 3
                call check(self%path, nf90mpi_def_dim(self%file, names(i), layer(i), &
                    dimensions(i)), 'nf90mpi_def_dim', error)
            end do
            if (access%steps > 1) call check(self%path, nf90mpi_def_dim(self%file, 'time', &
                nf90mpi_unlimited, dimensions(4)), 'nf90mpi_def_dim', error)
            do i = 1, size(self%variables)
                call check(self%path, nf90mpi_def_var(self%file, access%variable_name(i), &
                    nf90_double, dimensions, self%variables(i)), 'nf90mpi_def_var', error)
            end do
        end associate
        if (self%settings%alignment > 1) then
            call check(self%path, nf90mpi_enddef(self%file, v_align=self%settings%alignment), &
                'nf90mpi_enddef', error)
        else
            call check(self%path, nf90mpi_enddef(self%file), 'nf90mpi_enddef', error)
        end if
        if (.not. error%failed()) call check(self%path, nf90mpi_inq_file_info(self%file, &
            info%mpi_val), 'nf90mpi_inq_file_info', error)
        if (.not. error%failed()) then
            call list_hints(info, self%hints)
            call MPI_Info_free(info)
        end if
    end subroutine define_new

    subroutine move_piece(self, writes, part, memory, room, error)
        class(pnetcdf_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        type(MPI_Datatype) :: in_memory
        integer(MPI_OFFSET_KIND) :: extent(4), start(4), types
        integer :: number, request, variable

        call describe_piece(part, room, in_memory, number)
        types = number
        call self%find_piece(part, number, start, extent)
        start = start + 1
        variable = self%variables(number)
        if (self%settings%access%is_nonblocking .and. writes) then
            call check(self%path, nfmpi_iput_vara(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val, request), 'nfmpi_iput_vara', error)
        else if (self%settings%access%is_nonblocking) then
            call check(self%path, nfmpi_iget_vara(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val, request), 'nfmpi_iget_vara', error)
        else if (writes .and. self%settings%collective) then
            call check(self%path, nfmpi_put_vara_all(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val), 'nfmpi_put_vara_all', error)
        else if (self%settings%collective) then
            call check(self%path, nfmpi_get_vara_all(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val), 'nfmpi_get_vara_all', error)
        else if (writes) then
            call check(self%path, nfmpi_put_vara(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val), 'nfmpi_put_vara', error)
        else
            call check(self%path, nfmpi_get_vara(self%file, variable, start, extent, memory, &
                types, in_memory%mpi_val), 'nfmpi_get_vara', error)
        end if
        if (in_memory /= MPI_DOUBLE_PRECISION) call MPI_Type_free(in_memory)
    end subroutine move_piece

    !> All that was posted, with one collective transfer of as much as the library can join.
    subroutine complete(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: requests(1), states(1)   ! not looked at where all are meant

        if (.not. self%settings%access%is_nonblocking) return
        call check(self%path, nf90mpi_wait_all(self%file, nf90_req_all, requests, states), &
            'nf90mpi_wait_all', error)
    end subroutine complete

    subroutine flush(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self%path, nf90mpi_sync(self%file), 'nf90mpi_sync', error)
    end subroutine flush

    subroutine close(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        call check(self%path, nf90mpi_close(self%file), 'nf90mpi_close', error)
    end subroutine close

    subroutine locate(path, settings, place, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        integer(MPI_OFFSET_KIND) :: offset, record
        integer :: file, i, step, variable

        call check(path, nf90mpi_open(MPI_COMM_SELF%mpi_val, path, nf90_nowrite, &
            MPI_INFO_NULL%mpi_val, file), 'nf90mpi_open', error)
        if (error%failed()) return
        associate (access => settings%access)
            record = 0      ! bytes from a step of a variable to its next step
            call check(path, nf90mpi_inq_recsize(file, record), 'nf90mpi_inq_recsize', error)
            allocate (place%offsets(access%layers()), source=0_int64)
            do i = 1, access%variables
                if (error%failed()) exit
                call check(path, nf90mpi_inq_varid(file, access%variable_name(i), variable), &
                    'nf90mpi_inq_varid', error)
                if (error%failed()) exit
                offset = 0
                call check(path, nf90mpi_inq_varoffset(file, variable, offset), &
                    'nf90mpi_inq_varoffset', error)
                do step = 0, access%steps - 1
                    place%offsets(i + step*access%variables) = offset + step*record
                end do
            end do
        end associate
        call check(path, nf90mpi_close(file), 'nf90mpi_close', error)
        place%is_big_endian = .true.
    end subroutine locate

    !> Collective or independent transfer; PnetCDF's default is collective. The call itself is
    !> collective: a rank that failed makes it too.
    subroutine set_access(self, error)
        class(pnetcdf_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%settings%collective) return
        call check(self%path, nf90mpi_begin_indep_data(self%file), &
            'nf90mpi_begin_indep_data', error)
    end subroutine set_access

    !> Records an unsuccessful return code of a PnetCDF call.
    subroutine check(path, code, call, error)
        character(*), intent(in) :: path
        integer, intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        if (code == nf90_noerr) return
        call error%set(exit_io, call, path, trim(nf90mpi_strerror(code)))
    end subroutine check

end module benchio_pnetcdf_backend
