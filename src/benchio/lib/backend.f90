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
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: exit_internal, failure
    use benchio_raw_file, only: aligned_memory
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal
    use benchio_transfer, only: first_in_memory, new_transfer_plan, pack_piece, piece, &
        transfer_plan, unpack_piece
    implicit none (type, external)
    private

    !> Where the bytes of an array are in its file, for a reader that does without the library.
    type, public :: placement
        logical :: is_contiguous = .true.   !! one run of bytes; else only the library finds them
        integer(int64) :: offset = 0        !! of the first element, bytes
        logical :: is_big_endian = .false.
    end type placement

    type, abstract, public :: backend
        character(:), allocatable :: name       !! as given to --backend
        character(:), allocatable :: extension  !! of its files, without the dot
        ! Of the file that is open:
        character(:), allocatable :: path
        integer(int64) :: global(3) = 0         !! extents of its array
        type(MPI_Comm) :: comm                  !! the ranks that share it
        type(io_settings) :: settings
        type(decomposition) :: block            !! this rank's part that is selected
        type(transfer_plan) :: plan             !! the pieces of that part
        integer(int64) :: pieces = 0            !! of the rank that has most
        logical :: packs = .false.              !! pieces are copied; for select_block to say
        type(aligned_memory) :: buffer          !! for a piece that is
        real(real64) :: pack_seconds = 0        !! spent on copying
        ! What the library says; empty where it says nothing:
        type(hint), allocatable :: echoed_hints(:)              !! repeated by MPI-IO, no evidence
        character(:), allocatable :: echoed_collective_metadata !! repeated by the library
        character(:), allocatable :: observed_collective        !! what the last transfer was
    contains
        procedure, non_overridable :: open      !! a new file to write, or an old one to read
        procedure, non_overridable :: select    !! this rank's part, in file and memory
        procedure, non_overridable :: move      !! writes or reads that part, without its halo
        procedure(open_file), deferred :: open_file
        procedure(step), deferred :: define     !! what the file says of the array
        procedure(step), deferred :: select_block   !! after block and plan were set
        procedure(move_piece), deferred :: move_piece
        procedure(step), deferred :: flush      !! the library's own way to stable storage
        procedure(step), deferred :: close
        procedure(locate), deferred :: locate   !! where the bytes are, by one rank alone
    end type backend

    abstract interface
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

    subroutine open(self, path, global, comm, settings, writes, error)
        class(backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)     !! extents of the array in the file
        type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
        type(io_settings), intent(in) :: settings
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        self%path = path
        self%global = global
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
        self%plan = new_transfer_plan(block%extent, self%settings%transfer_bytes)
        self%pieces = self%plan%number_of()
        call MPI_Allreduce(MPI_IN_PLACE, self%pieces, 1, MPI_INT64_T, MPI_MAX, self%comm)
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
        integer(int64) :: number
        real(real64) :: start

        memory(1:size(field, kind=int64)) => field
        do number = 1, self%pieces
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
    end subroutine move

end module benchio_backend
