!> A file as plain bytes, through raw_file.c: what the posix backend writes, fsync and the witness
!> work with.
module benchio_raw_file
    use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int32_t, c_int64_t, &
        c_loc, c_null_char, c_ptr, c_size_t
    use, intrinsic :: iso_fortran_env, only: int64, int8, real64
    use benchio_access, only: element_bytes
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: text_of
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: c_close, c_drop_pages, c_resident, c_unsynced

    integer(c_int), parameter :: nothing_open = -1

    type, public :: raw_file
        logical :: is_direct = .false.              !! reads or writes go past the page cache
        character(:), allocatable, private :: path
        logical, private :: is_proven = .false.     !! a read past the page cache has left no page
        integer(c_int), private :: descriptor = nothing_open
    contains
        procedure :: open
        procedure :: is_open
        procedure :: read
        procedure :: move_box
        procedure :: sync
        procedure :: close
        procedure :: resident_bytes
        procedure :: drop_pages
        procedure :: unsynced_bytes
        procedure, private :: check
    end type raw_file

    !> Memory for O_DIRECT, which takes aligned memory only.
    type, public :: aligned_memory
        real(real64), pointer, contiguous :: values(:) => null()
        integer(int8), pointer, contiguous :: bytes(:) => null()    !! the same
    contains
        procedure :: provide
        procedure :: free
    end type aligned_memory

    ! The two results of C's that are no errno.
    integer(c_int), parameter :: end_of_file = -1, not_aligned = -2

    interface
        integer(c_int) function c_close(descriptor) bind(C, name='benchio_raw_close')
            import :: c_int
            integer(c_int), value :: descriptor
        end function c_close

        integer(c_int) function c_sync(descriptor) bind(C, name='benchio_raw_sync')
            import :: c_int
            integer(c_int), value :: descriptor
        end function c_sync

        integer(c_int) function c_drop_pages(descriptor) bind(C, name='benchio_raw_drop_pages')
            import :: c_int
            integer(c_int), value :: descriptor
        end function c_drop_pages

        integer(c_int) function c_open(path, writes, creates, direct, descriptor) &
            bind(C, name='benchio_raw_open')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int32_t), value :: writes, creates
            integer(c_int32_t), intent(inout) :: direct
            integer(c_int), intent(out) :: descriptor
        end function c_open

        integer(c_int) function c_move_box(descriptor, writes, direct, memory, memory_step, &
            file_step, row_bytes, rows, at, length) bind(C, name='benchio_raw_move_box')
            import :: c_int, c_int32_t, c_int64_t, c_ptr
            integer(c_int), value :: descriptor
            integer(c_int32_t), value :: writes, direct
            type(c_ptr), value :: memory
            integer(c_int64_t), intent(in) :: memory_step(2), file_step(2), rows(2)
            integer(c_int64_t), value :: row_bytes
            integer(c_int64_t), intent(inout) :: at, length
        end function c_move_box

        integer(c_int) function c_read(descriptor, direct, to, spare, offset, bytes, stop_byte) &
            bind(C, name='benchio_raw_read')
            import :: c_int, c_int32_t, c_int64_t, c_ptr
            integer(c_int), value :: descriptor
            integer(c_int32_t), intent(inout) :: direct
            type(c_ptr), value :: to
            integer(c_int64_t), value :: spare, offset, bytes
            integer(c_int64_t), intent(out) :: stop_byte
        end function c_read

        integer(c_int64_t) function c_resident(descriptor, offset, bytes) &
            bind(C, name='benchio_raw_resident')
            import :: c_int, c_int64_t
            integer(c_int), value :: descriptor
            integer(c_int64_t), value :: offset, bytes
        end function c_resident

        integer(c_int64_t) function c_unsynced(descriptor) bind(C, name='benchio_raw_unsynced')
            import :: c_int, c_int64_t
            integer(c_int), value :: descriptor
        end function c_unsynced

        integer(c_int64_t) function c_alignment() bind(C, name='benchio_raw_alignment')
            import :: c_int64_t
        end function c_alignment

        integer(c_int) function c_allocate(memory, alignment, bytes) bind(C, name='posix_memalign')
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(out) :: memory
            integer(c_size_t), value :: alignment, bytes
        end function c_allocate

        subroutine c_free(memory) bind(C, name='free')
            import :: c_ptr
            type(c_ptr), value :: memory
        end subroutine c_free
    end interface

contains

    !> Opens a file for reading, or for writing.
    subroutine open(self, path, error, writes, direct, creates)
        class(raw_file), intent(inout) :: self
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error
        logical, intent(in), optional :: writes
        logical, intent(in), optional :: direct     !! by O_DIRECT, if the filesystem has it
        logical, intent(in), optional :: creates    !! a new file, never an old one

        integer(c_int32_t) :: is_direct

        self%path = path
        is_direct = given(direct)
        call self%check(c_open(path//c_null_char, given(writes), given(creates), is_direct, &
            self%descriptor), 'open', error)
        self%is_direct = self%is_open() .and. is_direct == 1
        self%is_proven = .false.
    end subroutine open

    pure logical function is_open(self)
        class(raw_file), intent(in) :: self

        is_open = self%descriptor /= nothing_open
    end function is_open

    pure integer(c_int32_t) function given(wish)
        logical, intent(in), optional :: wish

        given = 0
        if (present(wish)) given = merge(1_c_int32_t, 0_c_int32_t, wish)
    end function given

    !> Reads bytes from any place of the file. The file is is_direct no more where the filesystem
    !> refuses to read past the page cache after all, or took O_DIRECT and ignores it: its pages are
    !> then in memory.
    subroutine read(self, offset, memory, first, bytes, is_spare, error)
        class(raw_file), intent(inout) :: self
        integer(int64), intent(in) :: offset        !! in bytes
        integer(int8), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: first, bytes  !! of the memory: from 0, and how many
        logical, intent(in) :: is_spare             !! the memory before and behind may change
        type(failure), intent(inout) :: error

        integer(c_int64_t) :: resident, stop_byte
        integer(c_int32_t) :: direct

        if (bytes == 0) return
        direct = given(self%is_direct)
        resident = bytes
        if (self%is_direct .and. .not. self%is_proven) resident = self%resident_bytes(offset, bytes)
        call self%check(c_read(self%descriptor, direct, c_loc(memory(first + 1)), &
            merge(c_alignment(), 0_c_int64_t, is_spare), offset, bytes, stop_byte), 'pread', &
            error, stop_byte)
        self%is_direct = direct == 1
        if (resident == bytes .or. .not. self%is_direct) return     ! new pages cannot be seen
        ! Pages at both ends may have come with a neighbour's bytes.
        self%is_proven = self%resident_bytes(offset, bytes) - resident <= bytes/2
        self%is_direct = self%is_proven
    end subroutine read

    !> Writes a box of an array in memory to its place in the array of the file, or reads it. Rows
    !> that are adjacent in the file are moved in one call, wherever they are in memory.
    subroutine move_box(self, writes, memory, memory_extents, offset, file_extents, box, error)
        class(raw_file), intent(in) :: self
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: memory(:)    !! from the box's first
        integer(int64), intent(in) :: memory_extents(3)     !! of the array that it is in
        integer(int64), intent(in) :: offset                !! of the box's first element, in bytes
        integer(int64), intent(in) :: file_extents(3)       !! of the array in the file
        integer(int64), intent(in) :: box(3)                !! its extents
        type(failure), intent(inout) :: error

        integer(c_int64_t) :: at, length

        if (product(box) == 0) return
        at = offset
        length = 0
        call self%check(c_move_box(self%descriptor, given(writes), given(self%is_direct), &
            c_loc(memory), steps(memory_extents), steps(file_extents), element_bytes*box(1), &
            box(2:3), at, length), merge('pwrite', 'pread ', writes), error, at, length)
    end subroutine move_box

    !> Bytes from row to row and from plane to plane of an array.
    pure function steps(extents)
        integer(int64), intent(in) :: extents(3)
        integer(c_int64_t) :: steps(2)

        steps(1) = element_bytes*extents(1)
        steps(2) = steps(1)*extents(2)
    end function steps

    !> To stable storage: what this node holds of the file, whoever wrote it.
    subroutine sync(self, error)
        class(raw_file), intent(in) :: self
        type(failure), intent(inout) :: error

        call self%check(c_sync(self%descriptor), 'fsync', error)
    end subroutine sync

    subroutine close(self, error)
        class(raw_file), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%is_open()) call self%check(c_close(self%descriptor), 'close', error)
        self%descriptor = nothing_open
    end subroutine close

    !> Counts the bytes of a part of the file that are in this node's page cache; -1 where the
    !> kernel does not say. The file is open for reading.
    integer(int64) function resident_bytes(self, offset, bytes)
        class(raw_file), intent(in) :: self
        integer(int64), intent(in) :: offset, bytes

        resident_bytes = c_resident(self%descriptor, offset, bytes)
    end function resident_bytes

    !> Asks the kernel to forget the pages of the file; it keeps those not yet on stable storage.
    subroutine drop_pages(self, error)
        class(raw_file), intent(in) :: self
        type(failure), intent(inout) :: error

        call self%check(c_drop_pages(self%descriptor), 'posix_fadvise', error)
    end subroutine drop_pages

    !> Counts the bytes of the file that this node had not yet written when it was asked, just now,
    !> to forget the pages; -1 where that cannot be known.
    integer(int64) function unsynced_bytes(self)
        class(raw_file), intent(in) :: self

        unsynced_bytes = c_unsynced(self%descriptor)
    end function unsynced_bytes

    !> Room for so many values.
    subroutine provide(self, number, has_room)
        class(aligned_memory), intent(inout) :: self
        integer(int64), intent(in) :: number
        logical, intent(out) :: has_room

        type(c_ptr) :: memory

        call self%free()
        has_room = c_allocate(memory, int(c_alignment(), c_size_t), &
            int(element_bytes*number, c_size_t)) == 0
        if (.not. has_room) return
        call c_f_pointer(memory, self%values, [number])
        call c_f_pointer(memory, self%bytes, [element_bytes*number])
    end subroutine provide

    subroutine free(self)
        class(aligned_memory), intent(inout) :: self

        if (associated(self%values)) call c_free(c_loc(self%values))
        self%values => null()
        self%bytes => null()
    end subroutine free

    !> Records a result of raw_file.c that is no success.
    subroutine check(self, code, call, error, at, length)
        class(raw_file), intent(in) :: self
        integer(c_int), intent(in) :: code
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error
        integer(int64), intent(in), optional :: at, length  !! where in the file, in bytes

        character(:), allocatable :: text

        select case (code)
        case (0)
            return
        case (end_of_file)
            text = 'file ends at byte '//decimal(at)
        case (not_aligned)
            text = 'O_DIRECT takes multiples of '//decimal(c_alignment())//' bytes, and '// &
                decimal(length)//' bytes at '//decimal(at)// &
                ' are not: change sizes, grid or --transfer, or leave --direct out'
        case default
            text = text_of(code)
        end select
        call error%set(exit_io, trim(call), self%path, text)
    end subroutine check

end module benchio_raw_file
