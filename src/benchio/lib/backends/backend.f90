!> The abstract backend: a library that keeps an array in one file, and the file that it has open.
!>
!> A library says what it is, what it cannot do, and where the bytes of a closed file are. Extend
!> the type once a library, in one file, and name it in the registry. Each file is an object of that
!> type, which one rank has.
!>
!> A write and a read call open, define, select, move, close, each on every rank of the communicator
!> that shares the file: define says in a new file what the array is, and learns it from an old one.
!> Select and move may be repeated for other parts of the array. An extension does each of these for
!> one piece of the block. This module cuts the block into pieces and packs them for a library that
!> needs it, alike for all libraries.
!>
!> A procedure that fails records the failure and returns; the caller makes the ranks agree before
!> the next call. But not before a select, which follows define at once, nor between pieces: every
!> rank makes all collective calls, even after a failure. Memory for packed pieces is got before.
module benchio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_F_sync_reg, MPI_IN_PLACE, MPI_INT64_T, MPI_MAX
    use benchio_access, only: access_pattern, element_bytes
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: exit_internal, exit_usage, failure
    use benchio_file_parts, only: file_parts
    use benchio_posix, only: now
    use benchio_raw_file, only: aligned_memory
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal
    use benchio_transfer, only: copy_piece, first_in_memory, new_transfer_plan, piece, transfer_plan
    implicit none (type, external)
    private

    public :: cannot, mpi_path_objection

    !> The places of an array's bytes in its file, for a reader that does without the library: runs
    !> that are equally long.
    type, public :: placement
        logical :: is_contiguous = .true.   !! runs of bytes; else only the library finds them
        integer(int64), allocatable :: offsets(:)   !! of the first element of each run, bytes
        logical :: is_big_endian = .false.
    end type placement

    !> A library, and a file from its open to its close, as one rank has it.
    type, abstract, public :: backend
        character(:), allocatable :: name       !! as given to --backend; the registry sets it
        character(:), allocatable :: extension  !! of the library's files, without the dot
        ! The open file:
        character(:), allocatable :: path
        type(MPI_Comm) :: comm                  !! the ranks that share it
        type(io_settings) :: settings
        logical :: writes = .false.             !! the file, or reads it
        type(decomposition) :: block            !! this rank's part
        type(transfer_plan) :: plan             !! the pieces of that part
        integer(int64) :: pieces = 0            !! of the rank that has most, empty ones of others
        type(aligned_memory) :: buffer          !! for a piece that is packed, of the whole run
        real(real64) :: pack_seconds = 0        !! spent on copying
        real(real64) :: gather_seconds = 0      !! spent on collecting what others have
        type(hint), allocatable :: hints(:)     !! that the library repeats; or not allocated
    contains
        ! Of the library and closed files; not collective.
        procedure, nopass :: version => no_text
        procedure, nopass :: extra => no_text   !! what only some builds of the library have
        procedure, nopass :: objection
        procedure, nopass :: path_objection => mpi_path_objection   !! to a directory
        procedure, nopass :: heeded             !! what concerns this library of the access
        procedure, nopass :: packs              !! whether pieces of a block are copied
        procedure, nopass :: companions         !! of a file
        procedure, nopass :: locate             !! where the bytes of a closed file are
        procedure, nopass :: find_parts         !! the files that a closed file is
        procedure, nopass :: echo               !! what the library repeats of a closed file
        procedure :: packed_elements            !! of the largest piece
        procedure, non_overridable :: reserve   !! memory for what is packed; before open
        ! Of the open file.
        procedure, non_overridable :: open      !! a new file to write, or an old one to read
        procedure :: select                     !! this rank's part, in file and memory
        procedure :: move                       !! writes or reads that part, without its halo
        procedure(open_in_library), deferred :: open_in_library
        procedure :: define => do_nothing       !! what the file says of the array
        procedure :: select_block => do_nothing !! after block and plan were set
        procedure(move_piece), deferred :: move_piece
        procedure :: complete => do_nothing     !! what was moved since the last time, nonblocking
        procedure, non_overridable :: chunk     !! extents for a file that has to have chunks
        procedure, non_overridable :: find_piece    !! in the variables of the file
        procedure(step), deferred :: flush      !! the library's own way to stable storage
        procedure(step), deferred :: close
        procedure :: kind_of_transfer           !! after the close
    end type backend

    abstract interface
        !> Opens self%path, a new file if this writes, else an existing one. Collective.
        subroutine open_in_library(self, writes, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            logical, intent(in) :: writes
            type(failure), intent(inout) :: error
        end subroutine open_in_library

        subroutine step(self, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            type(failure), intent(inout) :: error
        end subroutine step

        !> Writes or reads one piece of the block; an empty one on a rank that has no more while
        !> others do. Collective.
        subroutine move_piece(self, writes, part, memory, room, error)
            import :: backend, failure, int64, piece, real64
            class(backend), intent(inout) :: self
            logical, intent(in) :: writes
            type(piece), intent(in) :: part
            real(real64), intent(inout), contiguous, target :: memory(:)    !! from its first
            integer(int64), intent(in) :: room(3)   !! extents of the array in memory it is part of
            type(failure), intent(inout) :: error
        end subroutine move_piece
    end interface

contains

    !> Records that no version of a library can do what was asked for.
    subroutine cannot(error, asked, reason)
        type(failure), intent(inout) :: error
        logical, intent(in) :: asked
        character(*), intent(in) :: reason

        if (asked) call error%set(exit_usage, '', '', reason)
    end subroutine cannot

    !> Says of the library, at run time, that there is nothing to say.
    function no_text() result(text)
        character(:), allocatable :: text

        text = ''
    end function no_text

    !> Says why the library cannot work so. The exit status is exit_usage if no version of it can,
    !> and exit_not_built_in if only this build cannot.
    type(failure) function objection(settings) result(error)
        type(io_settings), intent(in) :: settings
    end function objection

    !> Says why no file can be opened below a directory; empty if it can. Every library but plain
    !> system calls opens files by MPI-IO.
    function mpi_path_objection(directory) result(text)
        character(*), intent(in) :: directory       !! absolute, without links
        character(:), allocatable :: text

        text = ''
        if (index(directory, ':') > 0) text = 'MPI-IO may take what stands before ":" for the ' &
            //'type of a filesystem: name a directory without it, or write by system calls alone'
    end function mpi_path_objection

    !> Returns the access without what this library has not, and need not have: it is then a control
    !> that moves the same bytes in its usual way.
    pure type(access_pattern) function heeded(access)
        type(access_pattern), intent(in) :: access

        heeded = access
        heeded%is_nonblocking = .false.
        heeded%subfiles = 0
    end function heeded

    !> Says whether each piece of a block has to be packed; most libraries select in memory.
    pure logical function packs(block, settings)
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        packs = .false.
    end function packs

    !> Returns what follows a file's path in the names of more files that the library makes of it;
    !> empty if it makes none.
    pure function companions(settings) result(mark)
        type(io_settings), intent(in) :: settings
        character(:), allocatable :: mark

        mark = ''
    end function companions

    !> Finds where the bytes are in a closed file, and leaves no object open. Unless a library has a
    !> format of its own, the file is the array.
    subroutine locate(path, settings, place, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        place%offsets = [0_int64]
    end subroutine locate

    !> Opens a closed file and repeats whether the library treats its metadata
    !> collectively; empty where it has no word on that.
    subroutine echo(path, settings, collective_metadata, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        character(:), allocatable, intent(out) :: collective_metadata
        type(failure), intent(inout) :: error

        collective_metadata = ''
    end subroutine echo

    !> Makes room for what is packed, and touches it: no page fault of ours is inside a clock, and a
    !> rank without room is known before the others wait for it.
    subroutine reserve(self, elements, path, error)
        class(backend), intent(inout) :: self
        integer(int64), intent(in) :: elements
        character(*), intent(in) :: path            !! of the file
        type(failure), intent(inout) :: error

        logical :: has_room

        if (associated(self%buffer%values)) then
            if (size(self%buffer%values, kind=int64) >= elements) return
        end if
        call self%buffer%provide(elements, has_room)
        if (has_room) self%buffer%values = 0
        if (.not. has_room) call error%set(exit_internal, 'posix_memalign', path, 'no memory for ' &
            //'a piece of '//decimal(element_bytes*elements)//' bytes; --transfer makes it smaller')
    end subroutine reserve

    !> Counts the elements of the largest piece that has to be packed; 0: none has.
    pure integer(int64) function packed_elements(self, block, settings)
        class(backend), intent(in) :: self
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        type(transfer_plan) :: plan

        packed_elements = 0
        if (.not. self%packs(block, settings)) return
        plan = plan_of(block, settings)
        packed_elements = product(plan%step)
    end function packed_elements

    !> Plans the pieces of a block.
    pure type(transfer_plan) function plan_of(block, settings) result(plan)
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        integer(int64) :: layer(3)

        layer = block%layer_of_block()
        associate (access => settings%access, row => element_bytes*block%extent(1), &
            whole => settings%transfer_bytes)
            plan = new_transfer_plan(layer, merge(min(row, whole), whole, &
                access%has_rows()))
            ! Every rank has another order, but the same in every round and night.
            if (access%order == 'random') plan%seed = 1 + sum(block%lower)
        end associate
        plan%layers = block%layers
    end function plan_of

    !> Opens the file for a part of the array. Collective.
    subroutine open(self, path, block, comm, settings, writes, error)
        class(backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block    !! this rank's part of the array in the file
        type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
        type(io_settings), intent(in) :: settings
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        self%path = path
        self%block = block
        self%comm = comm
        self%settings = settings
        self%writes = writes
        call self%open_in_library(writes, error)
    end subroutine open

    !> Plans the pieces of a part of the array, and selects it. Collective.
    subroutine select(self, block, error)
        class(backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        self%block = block
        self%plan = plan_of(block, self%settings)
        call MPI_Allreduce(MPI_IN_PLACE, self%plan%pieces_per_layer, 1, MPI_INT64_T, MPI_MAX, &
            self%comm)
        self%pieces = self%plan%number_of()
        call self%select_block(error)
    end subroutine select

    !> Writes or reads the selected part, piece by piece. Collective.
    subroutine move(self, writes, field, error)
        class(backend), intent(inout) :: self
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: memory(:)
        type(piece) :: part
        integer(int64) :: number, pieces_a_step, room(3)
        logical :: is_packed
        real(real64) :: start

        is_packed = self%packs(self%block, self%settings)
        memory(1:size(field, kind=int64)) => field
        room = self%block%extent + 2*self%block%halo
        pieces_a_step = self%pieces/self%settings%access%steps
        do number = 1, self%pieces
            if (number > 1 .and. mod(number - 1, pieces_a_step) == 0) call self%complete(error)
            part = self%plan%piece(number)
            if (.not. is_packed) then
                call self%move_piece(writes, part, memory(first_in_memory(self%block, part):), &
                    room, error)
                cycle
            end if
            start = now()
            if (writes) call copy_piece(field, self%block%halo, part, self%buffer%values, .true.)
            self%pack_seconds = self%pack_seconds + (now() - start)
            call self%move_piece(writes, part, self%buffer%values, part%extent, error)
            start = now()
            if (.not. (writes .or. error%failed())) then
                call copy_piece(field, self%block%halo, part, self%buffer%values, .false.)
            end if
            self%pack_seconds = self%pack_seconds + (now() - start)
        end do
        call self%complete(error)
        call MPI_F_sync_reg(field)      ! a library may have moved it since the call that named it
    end subroutine move

    !> Does what most libraries need in a step that only some have. Collective where that is.
    subroutine do_nothing(self, error)
        class(backend), intent(inout) :: self
        type(failure), intent(inout) :: error
    end subroutine do_nothing

    !> Chooses the extents of a chunk, in elements of a layer: as asked for, but no more than the
    !> layer has; else as large a part of a writer's block as is not more than 4 MiB. 0 if a file
    !> may do without chunks.
    pure function chunk(self) result(extents)
        class(backend), intent(in) :: self
        integer(int64) :: extents(3)

        integer(int64), parameter :: usual_bytes = 4*2_int64**20
        integer(int64) :: block(3), layer(3)
        type(transfer_plan) :: plan

        extents = 0
        layer = self%block%layer()
        associate (settings => self%settings, grid => self%block%grid)
            if (all(settings%chunk > 0)) then
                extents = min(settings%chunk, layer)
            else if (settings%access%steps > 1 .or. settings%access%deflate > 0) then
                block = (layer + grid - 1)/grid
                plan = new_transfer_plan(block, usual_bytes)
                extents = plan%step
            end if
        end associate
    end function chunk

    !> Finds the variable that a piece is of, and the piece in it: x, y, z and time step, from 0.
    pure subroutine find_piece(self, part, variable, corner, extent)
        class(backend), intent(in) :: self
        type(piece), intent(in) :: part
        integer, intent(out) :: variable                !! number, from 1
        integer(int64), intent(out) :: corner(4), extent(4)

        variable = 1 + int(mod(part%layer, int(self%settings%access%variables, int64)))
        corner(:3) = self%block%lower + part%before
        corner(3) = self%block%lower(3) + part%in_layer
        corner(4) = part%layer/self%settings%access%variables
        extent(:3) = part%extent
        extent(4) = min(1_int64, part%elements())
    end subroutine find_piece

    !> Finds the files that the library has made of a closed one. In most libraries it is one file,
    !> as the parts say already. Collective over comm.
    subroutine find_parts(path, settings, comm, parts, error)
        character(*), intent(in) :: path
        type(io_settings), intent(in) :: settings
        type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
        type(file_parts), intent(inout) :: parts
        type(failure), intent(inout) :: error
    end subroutine find_parts

    !> Says whether the last transfer was collective; most libraries have no word on that.
    function kind_of_transfer(self) result(text)
        class(backend), intent(inout) :: self
        character(:), allocatable :: text

        text = ''
    end function kind_of_transfer

end module benchio_backend
