!> ADIOS2: the variable "data", of as many steps as there are time steps, by the engine BP5. Its
!> file is a directory, of files with the blocks as they were put, and of metadata.
!>
!> All ranks write one file in it, each at a place of its own; or with --subfiles N so many
!> aggregators write one each, to which the other ranks hand their blocks: N as there are ranks is a
!> file for each process.
!>
!> Blocks are put, and what the engine defers is written by the end of the step, in the phase
!> write. BP5 selects in memory where it writes, by a copy, and reads wrong where it selects. A halo
!> therefore costs a copy of each piece, timed as packing.
module benchio_adios2_backend
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_funptr, &
        c_null_char, c_null_ptr, c_ptr, c_size_t
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_COMM_SELF, MPI_Comm_size, MPI_Initialized
    use adios2, only: adios2_adios, adios2_begin_step, adios2_close, adios2_declare_io, &
        adios2_define_variable, adios2_end_step, adios2_engine, adios2_flush, adios2_get, &
        adios2_get_parameter, adios2_init, adios2_inquire_variable, adios2_io, &
        adios2_mode_deferred, adios2_mode_read, adios2_mode_sync, adios2_mode_write, adios2_open, &
        adios2_perform_gets, adios2_perform_puts, adios2_put, adios2_remove_io, &
        adios2_set_engine, adios2_set_parameter, adios2_set_selection, adios2_type_dp, &
        adios2_variable
    use benchio_access, only: access_pattern
    use benchio_backend, only: backend, cannot, placement
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_io, failure
    use benchio_file_parts, only: file_parts, path_length
    use benchio_posix, only: file_size, fortran_text
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal
    use benchio_transfer, only: piece
    implicit none (type, external)
    private

    public :: start_adios2

    !> Name of what the library keeps of an open file.
    character(*), parameter :: io_name = 'benchio'

    type(adios2_adios) :: library

    type, extends(backend), public :: adios2_backend
        private
        type(adios2_io) :: io
        type(adios2_engine) :: engine
        type(adios2_variable), allocatable :: variables(:)
        logical :: is_in_step = .false.
    contains
        procedure, nopass :: version
        procedure, nopass :: objection
        procedure, nopass :: path_objection
        procedure, nopass :: heeded
        procedure, nopass :: packs
        procedure, nopass :: companions
        procedure, nopass :: locate
        procedure, nopass :: find_parts
        procedure :: open_in_library
        procedure :: define
        procedure :: move_piece
        procedure :: complete
        procedure :: flush
        procedure :: close
    end type adios2_backend

    interface
        ! The text is a constant of the library's, which no interface of it gives.
        type(c_funptr) function dlsym(everywhere, name) bind(C)
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: everywhere
            character(kind=c_char), intent(in) :: name(*)
        end function dlsym

        integer(c_size_t) function strlen(text) bind(C)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function strlen
    end interface

contains

    !> Initialises the library, once and outside every clock, unless there is no MPI yet.
    subroutine start_adios2()
        integer :: ignored
        logical :: has_mpi

        call MPI_Initialized(has_mpi)
        if (has_mpi .and. .not. library%valid) then
            call adios2_init(library, MPI_COMM_SELF%mpi_val, ignored)
        end if
    end subroutine start_adios2

    function version() result(text)
        character(:), allocatable :: text

        character(kind=c_char), pointer :: letters(:)
        type(c_ptr) :: constant
        integer(c_size_t) :: length(1)

        text = 'of no known version'
        constant = transfer(dlsym(c_null_ptr, 'adios2_version_str'//c_null_char), c_null_ptr)
        if (.not. c_associated(constant)) return
        length = strlen(constant)
        call c_f_pointer(constant, letters, length)
        text = fortran_text(letters)
    end function version

    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings

        call cannot(error, settings%alignment > 1, 'ADIOS2 aligns nothing: leave out ' &
            //'--alignment, or the backend adios2')
        call cannot(error, settings%access%deflate > 0, 'adios2 writes the bytes as they are: ' &
            //'leave out --deflate, or the backend adios2')
        call cannot(error, settings%has_no_array, 'adios2 writes arrays, and this ' &
            //'--operation has none: leave --backend out')
        call cannot(error, settings%outlives_failures, 'adios2 can close no file after a write ' &
            //'that failed, and --targets is to go on: leave out the backend adios2')
    end function objection

    !> BP5 opens its files by system calls, and makes its directory as on other systems, too.
    function path_objection(directory) result(text)
        character(*), intent(in) :: directory
        character(:), allocatable :: text

        text = ''
        if (index(directory, achar(92)) > 0) text = 'ADIOS2 takes "'//achar(92)//'" for "/": ' &
            //'name a directory without it, or leave out the backend adios2'
    end function path_objection

    !> A subfile is what an aggregator writes; transfers that are posted are all there are.
    pure type(access_pattern) function heeded(access)
        type(access_pattern), intent(in) :: access

        heeded = access
        heeded%is_nonblocking = .false.
    end function heeded

    pure logical function packs(block, settings)
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        packs = block%halo > 0
    end function packs

    !> All files are in the directory.
    pure function companions(settings) result(mark)
        type(io_settings), intent(in) :: settings
        character(:), allocatable :: mark

        mark = '/'
    end function companions

    !> Where the blocks are is in the metadata, which only the library reads.
    subroutine locate(path, settings, place, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        place%is_contiguous = .false.
    end subroutine locate

    !> Opens the file for all ranks of it, with one aggregator unless there are to be subfiles.
    subroutine open_in_library(self, writes, error)
        class(adios2_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        character(*), parameter :: keys(3) = [character(15) :: 'AggregationType', &
            'NumAggregators', 'NumSubFiles']
        character(:), allocatable :: count
        integer :: code, i

        allocate (self%variables(self%settings%access%variables))
        call adios2_declare_io(self%io, library, io_name, code)
        call check(self, code, 'adios2_declare_io', error)
        call adios2_set_engine(self%io, 'BP5', code)
        call check(self, code, 'adios2_set_engine', error)
        if (writes) then
            associate (subfiles => self%settings%access%subfiles)
                count = decimal(max(1, subfiles))
                call set(keys(1), trim(merge('TwoLevelShm   ', 'EveryoneWrites', subfiles > 0)))
                call set(keys(2), count)
                call set(keys(3), count)
            end associate
        end if
        call adios2_open(self%engine, self%io, self%path, &
            merge(adios2_mode_write, adios2_mode_read, writes), self%comm%mpi_val, code)
        call check(self, code, 'adios2_open', error)
        if (error%failed() .or. .not. writes) return
        allocate (self%hints(size(keys) + 1))
        do i = 1, size(keys)
            self%hints(i)%key = trim(keys(i))
            call adios2_get_parameter(self%hints(i)%value, self%io, trim(keys(i)), code)
            call check(self, code, 'adios2_get_parameter', error)
        end do
        self%hints(size(self%hints)) = hint('Engine', trim(self%engine%type))

    contains

        subroutine set(key, value)
            character(*), intent(in) :: key, value

            call adios2_set_parameter(self%io, trim(key), value, code)
            call check(self, code, 'adios2_set_parameter', error)
        end subroutine set

    end subroutine open_in_library

    !> Defines the variables, of which each put selects a part anew; or finds them.
    subroutine define(self, error)
        class(adios2_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(int64) :: layer(3)
        integer :: code, i

        if (.not. self%writes) call begin_step(self, error)
        if (.not. self%writes) return
        layer = self%block%layer()
        do i = 1, size(self%variables)
            call adios2_define_variable(self%variables(i), self%io, &
                self%settings%access%variable_name(i), adios2_type_dp, 3, layer, [0_int64, &
                0_int64, 0_int64], layer, .false., code)
            call check(self, code, 'adios2_define_variable', error)
        end do
    end subroutine define

    !> The engine keeps the address of what it defers until the step ends: of what is in memory to
    !> stay, not of a packed piece that the next one replaces.
    subroutine move_piece(self, writes, part, memory, room, error)
        class(adios2_backend), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error

        integer(int64) :: corner(4), extent(4)
        integer :: code, launch, number
        logical :: stays

        call begin_step(self, error)
        if (error%failed() .or. part%elements() == 0) return
        call self%find_piece(part, number, corner, extent)
        associate (variable => self%variables(number))
            call adios2_set_selection(variable, 3, corner(:3), extent(:3), code)
            call check(self, code, 'adios2_set_selection', error)
            stays = .not. self%packs(self%block, self%settings)
            if (writes) stays = stays .or. self%pieces == self%settings%access%steps
            launch = merge(adios2_mode_deferred, adios2_mode_sync, stays)
            if (writes) then
                call adios2_put(self%engine, variable, memory(:part%elements()), launch, code)
                call check(self, code, 'adios2_put', error)
            else
                call adios2_get(self%engine, variable, memory(:part%elements()), launch, code)
                call check(self, code, 'adios2_get', error)
            end if
        end associate
    end subroutine move_piece

    !> Begins the next time step, unless it has begun. Collective.
    subroutine begin_step(self, error)
        class(adios2_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code, i

        if (self%is_in_step) return
        self%is_in_step = .true.
        call adios2_begin_step(self%engine, code)
        call check(self, code, 'adios2_begin_step', error)
        if (self%writes) return
        do i = 1, size(self%variables)
            call adios2_inquire_variable(self%variables(i), self%io, &
                self%settings%access%variable_name(i), code)
            if (.not. self%variables(i)%valid) call error%set(exit_io, 'adios2_inquire_variable', &
                self%path, 'no variable "'//self%settings%access%variable_name(i)//'"')
        end do
    end subroutine begin_step

    !> Ends the time step, which moves all that was deferred. A rank that is alone with the file may
    !> move it slab by slab, from the same memory: the step ends with the last.
    subroutine complete(self, error)
        class(adios2_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code, ranks

        call MPI_Comm_size(self%comm, ranks)
        if (ranks == 1 .and. any(self%block%lower + self%block%extent < self%block%global)) then
            if (self%writes) call adios2_perform_puts(self%engine, code)
            if (.not. self%writes) call adios2_perform_gets(self%engine, code)
            call check(self, code, 'adios2_perform_'//trim(merge('puts', 'gets', self%writes)), &
                error)
            return
        end if
        call adios2_end_step(self%engine, code)
        call check(self, code, 'adios2_end_step', error)
        self%is_in_step = .false.
    end subroutine complete

    subroutine flush(self, error)
        class(adios2_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call adios2_flush(self%engine, code)
        call check(self, code, 'adios2_flush', error)
    end subroutine flush

    subroutine close(self, error)
        class(adios2_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code
        logical :: ignored

        call adios2_close(self%engine, code)
        call check(self, code, 'adios2_close', error)
        if (.not. error%failed()) call adios2_remove_io(ignored, library, io_name, code)
    end subroutine close

    !> Finds the files in the directory: as many with the blocks as were asked for, and metadata.
    subroutine find_parts(path, settings, comm, parts, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(MPI_Comm), intent(in) :: comm
        type(file_parts), intent(inout) :: parts
        type(failure), intent(inout) :: error

        character(*), parameter :: metadata(4) = [character(14) :: 'md.idx', 'md.0', 'mmd.0', &
            'profiling.json']
        character(path_length), allocatable :: paths(:)
        integer(int64) :: bytes, largest
        integer :: i, number, rank, used, wanted

        call MPI_Comm_rank(comm, rank)
        if (rank == 0) then
            wanted = max(1, settings%access%subfiles)
            allocate (paths(wanted + size(metadata)))
            largest = 0
            used = 0
            do number = 0, wanted
                call note('data.'//decimal(number))
                if (used == number) exit
                largest = max(largest, bytes)
            end do
            if (number /= wanted) call error%set(exit_io, 'find_parts', path, 'ADIOS2 has made ' &
                //trim(merge('more ', 'fewer', number > wanted))//' files with data than asked ' &
                //'for: '//decimal(wanted))
            do i = 1, size(metadata)
                call note(trim(metadata(i)))
            end do
            if (settings%access%subfiles > 0) then
                call parts%name_parts(paths(:used), wanted, wanted, largest)
            else
                call parts%name_parts(paths(:used))
            end if
        end if
        call agree(error, comm)
        if (.not. error%failed()) call parts%share(comm)

    contains

        !> Notes a file if it is there.
        subroutine note(name)
            character(*), intent(in) :: name

            character(:), allocatable :: text

            call file_size(path//'/'//name, bytes, text)
            if (text /= '' .or. used == size(paths)) return
            used = used + 1
            paths(used) = path//'/'//name
        end subroutine note

    end subroutine find_parts

    !> Records an unsuccessful return code of an ADIOS2 call; the library says more on stderr.
    subroutine check(self, code, call, error)
        class(adios2_backend), intent(in) :: self
        integer, intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        character(*), parameter :: kinds(0:4) = [character(19) :: 'no error', &
            'an invalid argument', 'a system error', 'a runtime error', 'an exception']

        if (code == 0) return
        call error%set(exit_io, call, self%path, 'ADIOS2 met '//trim(kinds(min(max(code, 1), 4))) &
            //', and says more on stderr')
    end subroutine check

end module benchio_adios2_backend
