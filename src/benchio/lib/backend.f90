!> The abstract backend: a library that writes and reads an array in one file.
!>
!> Extend it once per library, in one file, and name it in the registry. A write calls open, define,
!> select, move, close; a read open, select, move, close; each on every rank of the communicator
!> that shares the file. Select and move may be repeated for other parts of the array. An extension
!> says how its library does each of these with one piece of the block; cutting the block into
!> pieces, and packing them for a library that needs it, is done here, alike for all of them.
!>
!> A procedure that fails records the failure and returns; the caller makes the ranks agree before
!> the next call. But not before a select, which follows define at once, nor between pieces: every
!> rank makes all collective calls, even after a failure.
module benchio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_IN_PLACE, MPI_INT64_T, MPI_MAX
    use benchio_clock, only: now
    use benchio_decomposition, only: decomposition, element_bytes
    use benchio_failure, only: exit_internal, exit_not_built_in, exit_usage, failure
    use benchio_raw_file, only: aligned_memory
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal
    use benchio_transfer, only: first_in_memory, new_transfer_plan, pack_piece, piece, &
        transfer_plan, unpack_piece
    implicit none (type, external)
    private

    public :: cannot, lacks

    !> Where the bytes of an array are in its file, for a reader that does without the library: in
    !> runs that are equally long.
    type, public :: placement
        logical :: is_contiguous = .true.   !! runs of bytes; else only the library finds them
        integer(int64), allocatable :: offsets(:)   !! of the first element of each, bytes
        logical :: is_big_endian = .false.
    end type placement

    type, abstract, public :: backend
        character(:), allocatable :: name       !! as given to --backend
        character(:), allocatable :: extension  !! of its files, without the dot
        ! Of the file that is open:
        character(:), allocatable :: path
        type(MPI_Comm) :: comm                  !! the ranks that share it
        type(io_settings) :: settings
        type(decomposition) :: block            !! this rank's part
        type(transfer_plan) :: plan             !! the pieces of that part
        integer(int64) :: pieces = 0            !! of the rank that has most, empty ones of others
        logical :: packs = .false.              !! pieces are copied; for select_block to say
        type(aligned_memory) :: buffer          !! for a piece that is
        real(real64) :: pack_seconds = 0        !! spent on copying
        ! What the library says; empty where it says nothing:
        type(hint), allocatable :: echoed_hints(:)              !! repeated by MPI-IO, no evidence
        character(:), allocatable :: echoed_collective_metadata !! repeated by the library
        character(:), allocatable :: observed_collective        !! what the last transfer was
    contains
        procedure(library_text), deferred :: version
        procedure :: extra                      !! what only some builds of the library have
        procedure(objection_to), deferred :: objection  !! to settings; or none
        procedure :: path_objection             !! to a directory
        procedure :: heeded                     !! what concerns this library of the settings
        procedure, non_overridable :: open      !! a new file to write, or an old one to read
        procedure, non_overridable :: select    !! this rank's part, in file and memory
        procedure, non_overridable :: move      !! writes or reads that part, without its halo
        procedure(open_file), deferred :: open_file
        procedure(step), deferred :: define     !! what the file says of the array
        procedure(step), deferred :: select_block   !! after block and plan were set
        procedure(move_piece), deferred :: move_piece
        procedure :: complete                   !! what was moved since the last time, nonblocking
        procedure, non_overridable :: chunk     !! extents for a file that has to have chunks
        procedure(step), deferred :: flush      !! the library's own way to stable storage
        procedure(step), deferred :: close
        procedure(locate), deferred :: locate   !! where the bytes are, by one rank alone
    end type backend

    abstract interface
        !> Names the library's version, as the library says it at run time.
        function library_text(self) result(text)
            import :: backend
            class(backend), intent(in) :: self
            character(:), allocatable :: text
        end function library_text

        !> Not collective: says why the library cannot work so. The exit status is exit_usage if no
        !> version of it can, and exit_not_built_in if only this build cannot.
        type(failure) function objection_to(self, settings) result(error)
            import :: backend, failure, io_settings
            class(backend), intent(in) :: self
            type(io_settings), intent(in) :: settings
        end function objection_to

        !> Collective: opens self%path, a new file if this writes, else an existing one.
        subroutine open_file(self, writes, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            logical, intent(in) :: writes
            type(failure), intent(inout) :: error
        end subroutine open_file

        subroutine step(self, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            type(failure), intent(inout) :: error
        end subroutine step

        !> Collective: writes or reads one piece of the block; an empty one on a rank that has no
        !> more while others do.
        subroutine move_piece(self, writes, part, memory, room, error)
            import :: backend, failure, int64, piece, real64
            class(backend), intent(inout) :: self
            logical, intent(in) :: writes
            type(piece), intent(in) :: part
            real(real64), intent(inout), contiguous, target :: memory(:)    !! from its first
            integer(int64), intent(in) :: room(3)   !! extents of the array in memory it is part of
            type(failure), intent(inout) :: error
        end subroutine move_piece

        !> Not collective: looks into the closed file self%path. No object stays open.
        subroutine locate(self, place, error)
            import :: backend, failure, placement
            class(backend), intent(inout) :: self
            type(placement), intent(out) :: place
            type(failure), intent(inout) :: error
        end subroutine locate
    end interface

contains

    !> Records that no version of a library can do what was asked for.
    subroutine cannot(error, asked, reason)
        type(failure), intent(inout) :: error
        logical, intent(in) :: asked
        character(*), intent(in) :: reason

        if (asked) call error%set(exit_usage, '', '', reason)
    end subroutine cannot

    !> Records that this build of a library cannot do what was asked for.
    subroutine lacks(error, asked, reason)
        type(failure), intent(inout) :: error
        logical, intent(in) :: asked
        character(*), intent(in) :: reason

        if (asked) call error%set(exit_not_built_in, '', '', reason)
    end subroutine lacks

    !> Says for --version what only some builds of the library have; most have nothing of the kind.
    function extra(self) result(text)
        class(backend), intent(in) :: self
        character(:), allocatable :: text

        associate (unused => self)
        end associate
        text = ''
    end function extra

    !> Says why no file can be opened below a directory; empty if it can. Every library but plain
    !> system calls opens files by MPI-IO.
    function path_objection(self, directory) result(text)
        class(backend), intent(in) :: self
        character(*), intent(in) :: directory       !! absolute, without links
        character(:), allocatable :: text

        associate (unused => self)
        end associate
        text = ''
        if (index(directory, ':') > 0) text = 'MPI-IO may take what stands before ":" for the ' &
            //'type of a filesystem: name a directory without it, or write by system calls alone'
    end function path_objection

    !> Returns the settings without what this library has not, and need not have: it is then a
    !> control that moves the same bytes in its usual way.
    pure type(io_settings) function heeded(self, settings)
        class(backend), intent(in) :: self
        type(io_settings), intent(in) :: settings

        associate (unused => self)
        end associate
        heeded = settings
        heeded%access%is_nonblocking = .false.
        heeded%access%subfiles = 0
    end function heeded

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
        self%pack_seconds = 0
        call self%open_file(writes, error)
    end subroutine open

    subroutine select(self, block, error)
        class(backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        logical :: has_room

        self%block = block
        associate (access => self%settings%access, row => element_bytes*block%extent(1), &
            whole => self%settings%transfer_bytes)
            self%plan = new_transfer_plan(block%layer_of_block(), merge(min(row, whole), &
                whole, access%has_rows()))
            ! Of each rank another order, but the same in every round and night.
            if (access%is_random) self%plan%seed = 1 + sum(block%lower)
        end associate
        self%plan%layers = block%layers
        call MPI_Allreduce(MPI_IN_PLACE, self%plan%slots, 1, MPI_INT64_T, MPI_MAX, self%comm)
        self%pieces = self%plan%number_of()
        call self%select_block(error)
        if (.not. self%packs) return
        call self%buffer%provide(product(self%plan%step), has_room)
        if (.not. has_room) call error%set(exit_internal, 'posix_memalign', self%path, &
            'no memory for a piece of '//decimal(8*product(self%plan%step)) &
            //' bytes; --transfer makes it smaller')
    end subroutine select

    subroutine move(self, writes, field, error)
        class(backend), intent(inout) :: self
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: memory(:)
        type(piece) :: part
        integer(int64) :: number, of_step
        real(real64) :: start

        memory(1:size(field, kind=int64)) => field
        of_step = self%pieces/self%settings%access%steps
        do number = 1, self%pieces
            if (number > 1 .and. mod(number - 1, of_step) == 0) call self%complete(error)
            part = self%plan%piece(number)
            if (.not. self%packs) then
                call self%move_piece(writes, part, memory(first_in_memory(self%block, part):), &
                    self%block%extent + 2*self%block%halo, error)
                cycle
            end if
            start = now()
            if (writes) call pack_piece(field, self%block%halo, part, self%buffer%values)
            self%pack_seconds = self%pack_seconds + (now() - start)
            call self%move_piece(writes, part, self%buffer%values, part%extent, error)
            start = now()
            if (.not. (writes .or. error%failed())) then
                call unpack_piece(self%buffer%values, self%block%halo, part, field)
            end if
            self%pack_seconds = self%pack_seconds + (now() - start)
        end do
        call self%complete(error)
    end subroutine move

    !> Collective: waits for all transfers of a step. Of most libraries each has ended already.
    subroutine complete(self, error)
        class(backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        associate (unused => self, cannot_fail => error)
        end associate
    end subroutine complete

    !> Of a layer, in elements: as asked for, but no more than it has; else as large a part of a
    !> writer's block as is not more than 4 MiB. 0 if a file may do without.
    pure function chunk(self) result(extents)
        class(backend), intent(in) :: self
        integer(int64) :: extents(3)

        integer(int64), parameter :: usual_bytes = 4*2_int64**20
        integer(int64) :: layer(3)
        type(transfer_plan) :: plan

        extents = 0
        layer = self%block%layer()
        associate (settings => self%settings, grid => self%block%grid)
            if (all(settings%chunk > 0)) then
                extents = min(settings%chunk, layer)
            else if (settings%access%steps > 1 .or. settings%access%deflate > 0) then
                plan = new_transfer_plan((layer + grid - 1)/grid, usual_bytes)
                extents = plan%step
            end if
        end associate
    end function chunk

end module benchio_backend
