!> POSIX as Fortran sees it: names in directories, filesystems, signals, the process, and text files
!> written at once.
!>
!> Calls go through posix.c, whose functions return 0 or an error number: Fortran cannot ask for
!> errno itself. Every procedure that can fail returns an error text, which is empty on success.
module benchio_posix
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, &
        c_int8_t, c_null_char, c_null_ptr, c_ptr
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, int8, output_unit
    implicit none (type, external)
    private

    public :: attempt, environment_entry, exit_at_once, exit_process, file_size
    public :: first_entry, fortran_text, get_attribute, inode_text
    public :: keep_freed_memory, make_directory, make_private, now, path_exists, peak_rss
    public :: probe_file
    public :: random_digits, real_path, remove_directory, remove_family, remove_file
    public :: set_attribute, sleep, sync_all, sync_directories, text_of, utc_now, version
    public :: write_file

    integer, parameter :: text_size = 4096          !! of a path, as PATH_MAX of Linux

    abstract interface
        integer(c_int) function on_path(path) bind(C)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*)
        end function on_path

        integer(c_int) function number_from_path(path, number) bind(C)
            import :: c_char, c_int, c_int64_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int64_t), intent(out) :: number
        end function number_from_path

        integer(c_int) function text_from_path(path, text, size_of_text) bind(C)
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: path(*)
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int32_t), value :: size_of_text
        end function text_from_path

        integer(c_int) function text_from_number(number, text, size_of_text) bind(C)
            import :: c_char, c_int, c_int32_t
            integer(c_int), value :: number
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int32_t), value :: size_of_text
        end function text_from_number

        subroutine with_status(status) bind(C)
            import :: c_int
            integer(c_int), value :: status
        end subroutine with_status
    end interface

    ! What can be attempted at a path:
    !> Removes a file, or a link to one.
    procedure(on_path), bind(C, name='benchio_unlink') :: remove_file
    !> Removes an empty directory.
    procedure(on_path), bind(C, name='benchio_rmdir') :: remove_directory
    !> Tries whether write_file could write there; leaves nothing behind.
    procedure(on_path), bind(C, name='benchio_probe_file') :: probe_file
    !> Forces the names in directories, each ended by NUL, to stable storage.
    procedure(on_path), bind(C, name='benchio_sync_directories') :: sync_directories
    !> Forces all files of a directory's filesystem to stable storage, and its names.
    procedure(on_path), bind(C, name='benchio_metadata_sync') :: sync_all
    !> Makes a directory for this user alone; it must not exist.
    procedure(on_path), bind(C, name='benchio_make_directory') :: make_directory
    !> Lets nobody but this user into a directory.
    procedure(on_path), bind(C, name='benchio_make_private') :: make_private
    procedure(number_from_path), bind(C, name='benchio_file_size') :: c_file_size
    procedure(number_from_path), bind(C, name='benchio_exists') :: c_exists
    procedure(text_from_path), bind(C, name='benchio_inode') :: c_inode
    procedure(text_from_path), bind(C, name='benchio_real_path') :: c_real_path
    procedure(text_from_path), bind(C, name='benchio_first_entry') :: c_first_entry
    procedure(text_from_number), bind(C, name='benchio_environment') :: c_environment
    procedure(text_from_number), bind(C, name='benchio_strerror') :: c_strerror
    procedure(with_status), bind(C, name='benchio_exit') :: c_exit
    procedure(with_status), bind(C, name='benchio_exit_at_once') :: c_exit_at_once

    interface
        !> Lets libraries use again, without page faults, the memory that they have freed.
        subroutine keep_freed_memory() bind(C, name='benchio_keep_freed_memory')
        end subroutine keep_freed_memory

        integer(c_int) function c_set_attribute(path, name, value) &
            bind(C, name='benchio_set_attribute')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*), name(*), value(*)
        end function c_set_attribute

        integer(c_int) function c_flush(stream) bind(C, name='fflush')
            import :: c_int, c_ptr
            type(c_ptr), value :: stream
        end function c_flush

        !> Waits so many seconds; after a signal it returns those that were left.
        integer(c_int) function sleep(seconds) bind(C)
            import :: c_int
            integer(c_int), value :: seconds
        end function sleep

        integer(c_int) function c_get_attribute(path, name, bytes, most, length) &
            bind(C, name='benchio_get_attribute')
            import :: c_char, c_int, c_int32_t, c_int8_t
            character(kind=c_char), intent(in) :: path(*), name(*)
            integer(c_int8_t), intent(out) :: bytes(*)
            integer(c_int32_t), value :: most
            integer(c_int32_t), intent(out) :: length
        end function c_get_attribute

        integer(c_int) function c_remove_family(path, mark) bind(C, name='benchio_remove_family')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*), mark(*)
        end function c_remove_family

        !> Returns the seconds of a clock that nobody sets, as system_clock's may be. Only
        !> differences mean something, and only on one node.
        real(c_double) function now() bind(C, name='benchio_seconds')
            import :: c_double
        end function now

        !> Returns the most memory, in bytes, that this process has had resident.
        integer(c_int64_t) function peak_rss() bind(C, name='benchio_peak_rss')
            import :: c_int64_t
        end function peak_rss

        subroutine c_utc_now(text, size_of_text) bind(C, name='benchio_utc_now')
            import :: c_char, c_int32_t
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int32_t), value :: size_of_text
        end subroutine c_utc_now

        !> It is in a source that is generated: no module need be compiled for another commit.
        subroutine c_build(text, size_of_text) bind(C, name='benchio_build')
            import :: c_char, c_int
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int), value :: size_of_text
        end subroutine c_build

        integer(c_int) function c_write_file(path, text, bytes) bind(C, name='benchio_write_file')
            import :: c_char, c_int, c_int64_t
            character(kind=c_char), intent(in) :: path(*), text(*)
            integer(c_int64_t), value :: bytes
        end function c_write_file
    end interface

contains

    !> Attempts one of the procedures above.
    subroutine attempt(change, path, error)
        procedure(on_path) :: change
        character(*), intent(in) :: path
        character(:), allocatable, intent(out) :: error

        error = text_of(change(path//c_null_char))
    end subroutine attempt

    !> Returns an extended attribute of a file or directory; no bytes where it has none of the name.
    subroutine get_attribute(path, name, bytes, error)
        character(*), intent(in) :: path, name
        integer(int8), allocatable, intent(out) :: bytes(:)
        character(:), allocatable, intent(out) :: error

        integer, parameter :: largest = 65536       ! Linux: XATTR_SIZE_MAX
        integer(c_int8_t), allocatable :: buffer(:)
        integer(c_int32_t) :: length

        allocate (buffer(largest))
        error = text_of(c_get_attribute(path//c_null_char, name//c_null_char, buffer, &
            size(buffer, kind=c_int32_t), length))
        bytes = buffer(:length)
    end subroutine get_attribute

    !> Sets an extended attribute of a file or directory.
    subroutine set_attribute(path, name, value, error)
        character(*), intent(in) :: path, name, value
        character(:), allocatable, intent(out) :: error

        error = text_of(c_set_attribute(path//c_null_char, name//c_null_char, value//c_null_char))
    end subroutine set_attribute

    !> Returns the size of a file in bytes.
    subroutine file_size(path, bytes, error)
        character(*), intent(in) :: path
        integer(int64), intent(out) :: bytes
        character(:), allocatable, intent(out) :: error

        bytes = 0
        error = text_of(c_file_size(path//c_null_char, bytes))
    end subroutine file_size

    !> Says whether anything has this name, a symbolic link to nothing too.
    subroutine path_exists(path, exists, error)
        character(*), intent(in) :: path
        logical, intent(out) :: exists
        character(:), allocatable, intent(out) :: error

        integer(c_int64_t) :: is_there

        error = text_of(c_exists(path//c_null_char, is_there))
        exists = is_there /= 0
    end subroutine path_exists

    !> Removes a file, and before that all whose names begin with its path and the mark, unless that
    !> is empty.
    subroutine remove_family(path, mark, error)
        character(*), intent(in) :: path, mark
        character(:), allocatable, intent(out) :: error

        error = text_of(c_remove_family(path//c_null_char, mark//c_null_char))
    end subroutine remove_family

    !> Returns the inode number of a file, which may need all of 64 bits, in digits.
    subroutine inode_text(path, digits, error)
        character(*), intent(in) :: path
        character(:), allocatable, intent(out) :: digits, error

        character(kind=c_char) :: buffer(32)

        buffer = c_null_char
        error = text_of(c_inode(path//c_null_char, buffer, size(buffer, kind=c_int32_t)))
        digits = fortran_text(buffer)
    end subroutine inode_text

    !> Returns the name of something that is in a directory; empty if there is nothing.
    function first_entry(path) result(name)
        character(*), intent(in) :: path
        character(:), allocatable :: name

        character(kind=c_char) :: buffer(text_size)

        name = ''
        if (c_first_entry(path//c_null_char, buffer, size(buffer, kind=c_int32_t)) == 0) then
            name = fortran_text(buffer)
        end if
    end function first_entry

    !> Fills a text with random hexadecimal digits.
    subroutine random_digits(digits, error)
        character(*), intent(out) :: digits
        character(:), allocatable, intent(out) :: error

        character(16), parameter :: hexadecimal = '0123456789abcdef'
        character(256) :: reason
        integer(int8) :: bytes(len(digits))
        integer :: at, code, i, unit

        digits = ''
        error = ''
        open (newunit=unit, file='/dev/urandom', access='stream', form='unformatted', &
            action='read', iostat=code, iomsg=reason)
        if (code == 0) then
            read (unit, iostat=code, iomsg=reason) bytes
            close (unit)
        end if
        if (code /= 0) then
            error = trim(reason)
            return
        end if
        do i = 1, len(digits)
            at = 1 + iand(int(bytes(i)), 15)
            digits(i:i) = hexadecimal(at:at)
        end do
    end subroutine random_digits

    !> Returns the absolute path without symbolic links.
    subroutine real_path(path, resolved, error)
        character(*), intent(in) :: path
        character(:), allocatable, intent(out) :: resolved
        character(:), allocatable, intent(out) :: error

        character(kind=c_char) :: buffer(text_size)

        buffer = c_null_char
        error = text_of(c_real_path(path//c_null_char, buffer, size(buffer, kind=c_int32_t)))
        resolved = fortran_text(buffer)
    end subroutine real_path

    !> Writes a whole text file at once: a reader sees all of it or nothing.
    subroutine write_file(path, text, error)
        character(*), intent(in) :: path, text
        character(:), allocatable, intent(out) :: error

        error = text_of(c_write_file(path//c_null_char, text, len(text, int64)))
    end subroutine write_file

    !> Returns the index-th "NAME=value" of the environment, index from 0; empty past the last.
    function environment_entry(index) result(entry)
        integer, intent(in) :: index
        character(:), allocatable :: entry

        character(kind=c_char) :: buffer(text_size)

        entry = ''
        if (c_environment(int(index, c_int), buffer, size(buffer, kind=c_int32_t)) == 1) then
            entry = fortran_text(buffer)
        end if
    end function environment_entry

    !> Returns date and time in UTC with milliseconds, as 2017-06-29T12:00:00.123Z.
    function utc_now() result(text)
        character(:), allocatable :: text

        character(kind=c_char) :: buffer(32)

        call c_utc_now(buffer, int(size(buffer), c_int32_t))
        text = fortran_text(buffer)
    end function utc_now

    !> Returns the number of the release, then a plus sign and the last commit to these sources, if
    !> they are in a clone, with `.dirty` if they have been changed since.
    function version() result(text)
        character(:), allocatable :: text

        character(kind=c_char) :: buffer(64)

        call c_build(buffer, size(buffer, kind=c_int))
        text = fortran_text(buffer)
    end function version

    !> Ends the process without the notes that STOP prints about floating-point flags.
    subroutine exit_process(status)
        integer, intent(in) :: status

        flush (unit=output_unit)
        flush (unit=error_unit)
        call c_exit(int(status, c_int))
    end subroutine exit_process

    !> Ends the process, and leaves alone what a library holds open.
    subroutine exit_at_once(status)
        integer, intent(in) :: status

        integer(c_int) :: ignored

        flush (unit=output_unit)
        flush (unit=error_unit)
        ignored = c_flush(c_null_ptr)       ! what C libraries have said
        call c_exit_at_once(int(status, c_int))
    end subroutine exit_at_once

    !> Returns what the system says of an error number; empty for 0.
    function text_of(error) result(text)
        integer(c_int), intent(in) :: error
        character(:), allocatable :: text

        character(kind=c_char) :: buffer(256)

        text = ''
        if (error /= 0) then
            if (c_strerror(error, buffer, size(buffer, kind=c_int32_t)) == 0) then
                text = fortran_text(buffer)
            end if
        end if
    end function text_of

    !> Returns the characters before the first NUL.
    pure function fortran_text(buffer) result(text)
        character(kind=c_char), intent(in) :: buffer(:)
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(buffer)
            if (buffer(i) == c_null_char) exit
            text = text//buffer(i)
        end do
    end function fortran_text

end module benchio_posix
