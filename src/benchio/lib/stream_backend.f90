!> Fortran stream access: the array as raw native reals, x fastest; every rank writes its own runs.
!>
!> A record of half the runtime's buffer (gfortran: 64 of 128 KiB) or more goes straight to the
!> file; a smaller one is copied, and gfortran 12 then loses the error of the write and of FLUSH;
!> that of CLOSE it always loses. So rows that follow each other in the file are moved as one piece
!> of a few MiB, packed, and timed, where a halo parts them in memory. Rows that others' rows part
!> in the file stay small records: of a failure there only the file's size and its contents tell.
module benchio_stream_backend
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Bcast, MPI_Comm, MPI_Comm_rank, MPI_LOGICAL
    use benchio_backend, only: backend
    use benchio_clock, only: now
    use benchio_decomposition, only: decomposition, element_bytes
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: text_of
    use benchio_settings, only: io_settings
    use benchio_slabs, only: new_slabs, pack_box, slabs, unpack_box
    implicit none (type, external)
    private

    !> Bounds the extra memory of a rank.
    integer(int64), parameter :: piece_bytes = 4*2_int64**20

    integer, parameter :: no_unit = 0, message_length = 512

    type, extends(backend), public :: stream_backend
        private
        type(decomposition) :: block
        character(:), allocatable :: path
        integer :: unit = no_unit
        type(slabs) :: pieces                       !! of the block: one statement moves each
        logical :: packs = .false.                  !! they are not contiguous in memory
        real(real64), allocatable :: buffer(:)      !! one piece
    contains
        procedure :: create
        procedure :: define
        procedure :: select
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
    end type stream_backend

    interface
        integer(c_int) function c_sync_path(path) bind(C, name='benchio_sync_path')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*)
        end function c_sync_path
    end interface

contains

    !> Rank 0 makes the file, then the others open it: two makers would race.
    subroutine create(self, path, global, comm, settings, error)
        class(stream_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        integer :: rank
        logical :: made

        associate (unused => settings, of_the_block => global)
        end associate
        call MPI_Comm_rank(comm, rank)
        if (rank == 0) call connect(self, path, 'new', 'readwrite', error)
        made = .not. error%failed()
        call MPI_Bcast(made, 1, MPI_LOGICAL, 0, comm)
        if (rank == 0) return
        if (made) then
            call connect(self, path, 'old', 'readwrite', error)
        else        ! nobody may take the file for ours
            call error%set(exit_io, 'open', path, 'not made by the first rank of the file')
        end if
    end subroutine create

    subroutine open(self, path, global, comm, settings, error)
        class(stream_backend), intent(inout) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: global(3)
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        type(failure), intent(inout) :: error

        associate (unused => settings, of_the_block => global, as_well => comm)
        end associate
        call connect(self, path, 'old', 'read', error)
    end subroutine open

    subroutine connect(self, path, status, action, error)
        class(stream_backend), intent(inout) :: self
        character(*), intent(in) :: path, status, action
        type(failure), intent(inout) :: error

        character(message_length) :: message
        integer :: code, unit

        self%path = path
        open (newunit=unit, file=path, status=status, action=action, access='stream', &
            form='unformatted', iostat=code, iomsg=message)
        call check(self, code, 'open', message, error)
        if (code == 0) self%unit = unit
    end subroutine connect

    !> A raw file says nothing of its array.
    subroutine define(self, error)
        class(stream_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        associate (unused => self, as_well => error)
        end associate
    end subroutine define

    !> The block, and the largest pieces of it that are contiguous in the file.
    subroutine select(self, block, error)
        class(stream_backend), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error

        logical :: whole(3)

        associate (unused => error)
        end associate
        self%block = block
        self%pieces = new_slabs(block%extent, piece_bytes)
        whole = block%extent == block%global
        associate (piece => self%pieces%slab)
            if (.not. whole(1)) piece(2) = 1
            if (.not. (whole(1) .and. whole(2))) piece(3) = 1
            self%packs = block%halo > 0 .and. any(piece(2:) > 1)
            if (allocated(self%buffer)) deallocate (self%buffer)
            if (self%packs) allocate (self%buffer(product(piece)))
        end associate
    end subroutine select

    subroutine write(self, field, error)
        class(stream_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        character(message_length) :: message
        integer(int64) :: i, before(3), extent(3)
        integer :: code

        do i = 1, self%pieces%number_of()
            call self%pieces%bounds(i, before, extent)
            call write_piece(self, field, before, extent, error)
            if (error%failed()) return
        end do
        flush (self%unit, iostat=code, iomsg=message)
        call check(self, code, 'flush', message, error)
    end subroutine write

    subroutine write_piece(self, field, before, extent, error)
        class(stream_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        integer(int64), intent(in) :: before(3)     !! elements of the block before the piece
        integer(int64), intent(in) :: extent(3)
        type(failure), intent(inout) :: error

        character(message_length) :: message
        real(real64), pointer, contiguous :: row(:)
        real(real64) :: start
        integer(int64) :: corner(3), elements, first
        integer :: code

        elements = product(extent)
        if (self%packs) then
            corner = self%block%halo + before
            start = now()
            call pack_box(field, corner, extent, self%buffer)
            self%pack_seconds = self%pack_seconds + now() - start
            write (self%unit, pos=position_of(self, before), iostat=code, iomsg=message) &
                self%buffer(:elements)
        else
            row(1:size(field, kind=int64)) => field
            first = first_in_memory(self, before)
            write (self%unit, pos=position_of(self, before), iostat=code, iomsg=message) &
                row(first:first + elements - 1)
        end if
        call check(self, code, 'write', message, error)
    end subroutine write_piece

    !> Flushes this rank's own node, through a handle of C's: Fortran has no fsync.
    subroutine sync(self, error)
        class(stream_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer(c_int) :: code

        code = c_sync_path(self%path//c_null_char)
        if (code /= 0) call error%set(exit_io, 'fsync', self%path, text_of(code))
    end subroutine sync

    subroutine close(self, error)
        class(stream_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        character(message_length) :: message
        integer :: code

        if (allocated(self%buffer)) deallocate (self%buffer)
        if (self%unit == no_unit) return
        close (self%unit, iostat=code, iomsg=message)
        self%unit = no_unit
        call check(self, code, 'close', message, error)
    end subroutine close

    subroutine read(self, field, error)
        class(stream_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: i, before(3), extent(3)

        do i = 1, self%pieces%number_of()
            call self%pieces%bounds(i, before, extent)
            call read_piece(self, field, before, extent, error)
            if (error%failed()) return
        end do
    end subroutine read

    subroutine read_piece(self, field, before, extent, error)
        class(stream_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        integer(int64), intent(in) :: before(3)     !! elements of the block before the piece
        integer(int64), intent(in) :: extent(3)
        type(failure), intent(inout) :: error

        character(message_length) :: message
        real(real64), pointer, contiguous :: row(:)
        real(real64) :: start
        integer(int64) :: corner(3), elements, first
        integer :: code

        elements = product(extent)
        if (self%packs) then
            read (self%unit, pos=position_of(self, before), iostat=code, iomsg=message) &
                self%buffer(:elements)
            if (code == 0) then
                corner = self%block%halo + before
                start = now()
                call unpack_box(self%buffer, corner, extent, field)
                self%pack_seconds = self%pack_seconds + now() - start
            end if
        else
            row(1:size(field, kind=int64)) => field
            first = first_in_memory(self, before)
            read (self%unit, pos=position_of(self, before), iostat=code, iomsg=message) &
                row(first:first + elements - 1)
        end if
        call check(self, code, 'read', message, error)
    end subroutine read_piece

    !> Where an element of the block is in the file, in bytes from 1.
    pure integer(int64) function position_of(self, before) result(position)
        class(stream_backend), intent(in) :: self
        integer(int64), intent(in) :: before(3)

        integer(int64) :: at(3)

        at = self%block%lower + before
        associate (n => self%block%global)
            position = 1 + element_bytes*(at(1) + n(1)*(at(2) + n(2)*at(3)))
        end associate
    end function position_of

    !> Where an element of the block is in the field with its halo, in elements from 1.
    pure integer(int64) function first_in_memory(self, before) result(first)
        class(stream_backend), intent(in) :: self
        integer(int64), intent(in) :: before(3)

        integer(int64) :: at(3), n(3)

        at = self%block%halo + before
        n = self%block%extent + 2*self%block%halo
        first = 1 + at(1) + n(1)*(at(2) + n(2)*at(3))
    end function first_in_memory

    !> Records an unsuccessful iostat; its message is undefined otherwise.
    subroutine check(self, code, call, message, error)
        class(stream_backend), intent(in) :: self
        integer, intent(in) :: code
        character(*), intent(in) :: call, message
        type(failure), intent(inout) :: error

        if (code /= 0) call error%set(exit_io, call, self%path, trim(message))
    end subroutine check

end module benchio_stream_backend
