!> Lustre's striping: asked for on a directory, observed on the files made in it.
!>
!> It is set by one call of `lfs setstripe`, without a shell: that llapi_file_open does the same for
!> a directory is documented nowhere. It is observed in the extended attribute "lustre.lov", which
!> needs neither a library nor a program: a little-endian struct lov_user_md_v1 or _v3, or a
!> lov_comp_md_v1, which holds several of them (all in lustre_user.h).
module benchio_striping
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int8_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: fortran_text, text_of
    use benchio_text, only: decimal, one_line
    implicit none (type, external)
    private

    public :: check_striping, decode_layout, set_striping, setstripe_words, striping_matches

    !> Of a member of striping: nothing asked for, or nothing known.
    integer(int64), parameter, public :: unset = -huge(0_int64)

    type, public :: striping
        integer(int64) :: count = unset     !! OSTs; asked for: -1 all
        integer(int64) :: size = unset      !! bytes
        integer(int64) :: offset = unset    !! first OST
    contains
        procedure :: is_set
        procedure :: line
    end type striping

    interface
        integer(c_int) function c_lustre_layout(path, bytes, size, length) &
            bind(C, name='benchio_lustre_layout')
            import :: c_char, c_int, c_int32_t, c_int8_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int8_t), intent(out) :: bytes(*)
            integer(c_int32_t), value :: size
            integer(c_int32_t), intent(out) :: length
        end function c_lustre_layout

        integer(c_int) function c_run_program(words, output, size) &
            bind(C, name='benchio_run_program')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: words(*)
            character(kind=c_char), intent(out) :: output(*)
            integer(c_int32_t), value :: size
        end function c_run_program
    end interface

contains

    !> Whether anything is asked for.
    elemental logical function is_set(self)
        class(striping), intent(in) :: self

        is_set = self%count /= unset .or. self%size /= unset .or. self%offset /= unset
    end function is_set

    !> The striping as "count 4, size 1048576", without what is not set.
    pure function line(self) result(text)
        class(striping), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%count /= unset) text = text//', count '//decimal(self%count)
        if (self%size /= unset) text = text//', size '//decimal(self%size)
        if (self%offset /= unset) text = text//', offset '//decimal(self%offset)
        text = text(3:)     ! nothing set: still nothing
    end function line

    !> Sets the striping of the files to be made in a directory; nothing if none is asked for. One
    !> rank does it, once.
    subroutine set_striping(directory, wanted, filesystem, error)
        character(*), intent(in) :: directory, filesystem
        type(striping), intent(in) :: wanted
        type(failure), intent(inout) :: error

        character(kind=c_char) :: buffer(4096)
        character(:), allocatable :: output
        integer :: status

        if (.not. wanted%is_set()) return
        if (filesystem /= 'lustre') then
            call error%set(exit_io, 'lfs setstripe', directory, 'stripe settings were asked ' &
                //'for, but the directory is on '//filesystem//', not lustre')
            return
        end if
        status = c_run_program(setstripe_words(directory, wanted), buffer, &
            size(buffer, kind=c_int32_t))
        if (status < 0) then
            call error%set(exit_io, 'lfs setstripe', directory, 'lfs cannot be run: ' &
                //text_of(-status))
        else if (status /= 0) then
            output = trim(adjustl(one_line(fortran_text(buffer))))
            call error%set(exit_io, 'lfs setstripe', directory, 'exit status '//decimal(status) &
                //': '//output)
        end if
    end subroutine set_striping

    !> The command line, each word ended by NUL and the last by two. What is not asked for gets the
    !> filesystem's default.
    pure function setstripe_words(directory, wanted) result(words)
        character(*), intent(in) :: directory
        type(striping), intent(in) :: wanted
        character(:), allocatable :: words

        character(1), parameter :: nul = c_null_char

        words = 'lfs'//nul//'setstripe'//nul
        if (wanted%count /= unset) words = words//'-c'//nul//decimal(wanted%count)//nul
        if (wanted%size /= unset) words = words//'-S'//nul//decimal(wanted%size)//nul
        if (wanted%offset /= unset) words = words//'-i'//nul//decimal(wanted%offset)//nul
        words = words//directory//nul//nul
    end function setstripe_words

    !> Observes a file, and where a striping was asked for, fails unless the file has it. Without
    !> such a wish a striping that cannot be observed is none of the run's failures.
    subroutine check_striping(path, wanted, found, is_known, error)
        character(*), intent(in) :: path
        type(striping), intent(in) :: wanted
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known            !! not off Lustre
        type(failure), intent(inout) :: error

        character(:), allocatable :: message

        call observe(path, found, is_known, message)
        if (.not. wanted%is_set()) return
        if (message == '' .and. .not. is_known) then
            message = 'striping cannot be observed, asked for: '//wanted%line()
        else if (message == '' .and. .not. striping_matches(wanted, found)) then
            message = 'striping is '//found%line()//', asked for: '//wanted%line()
        end if
        if (message /= '') call error%set(exit_io, 'lgetxattr', path, message)
    end subroutine check_striping

    !> The striping that a file really has.
    subroutine observe(path, found, is_known, message)
        character(*), intent(in) :: path
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known
        character(:), allocatable, intent(out) :: message

        integer, parameter :: largest_attribute = 65536     ! Linux: XATTR_SIZE_MAX
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: length

        allocate (bytes(largest_attribute))
        message = text_of(c_lustre_layout(path//c_null_char, bytes, size(bytes, kind=c_int32_t), &
            length))
        call decode_layout(bytes(:length), found, is_known)
    end subroutine observe

    !> Whether an observed striping is what was asked for.
    !>
    !> All OSTs (count -1) means more than one: how many of them took part is Lustre's choice, which
    !> leaves out full and inactive ones.
    pure logical function striping_matches(wanted, found) result(matches)
        type(striping), intent(in) :: wanted, found

        matches = .true.
        if (wanted%count > 0) matches = found%count == wanted%count
        if (wanted%count == -1) matches = found%count > 1 .or. found%count == -1
        if (wanted%size > 0) matches = matches .and. found%size == wanted%size
        if (wanted%offset >= 0) matches = matches .and. found%offset == wanted%offset
    end function striping_matches

    !> Decodes lustre.lov. Of a composite (progressive) layout the last component that has its
    !> objects counts: those behind it are for a file that grows further.
    !>
    !> A composite layout: magic, size, generation, flags and number of entries in 16 bits each, up
    !> to byte 32; then entries of 48 bytes: id, flags, extent of 16 bytes, and offset and size of
    !> the component's own layout within the whole.
    pure subroutine decode_layout(bytes, found, is_known)
        integer(int8), intent(in) :: bytes(:)
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known

        integer(int64), parameter :: composite = int(z'0bd60bd0', int64), has_objects = 16
        integer(int64), parameter :: header = 32, entry = 48
        integer(int64) :: at, first, last, number

        is_known = .false.
        if (size(bytes) < header) return
        if (unsigned(bytes(1:4)) /= composite) then
            call decode_plain(bytes, found, is_known)
            return
        end if
        do number = unsigned(bytes(15:16)), 1, -1
            at = header + (number - 1)*entry
            if (at + entry > size(bytes)) return
            if (iand(unsigned(bytes(at + 5:at + 8)), has_objects) == 0) cycle
            first = unsigned(bytes(at + 25:at + 28))
            last = first + unsigned(bytes(at + 29:at + 32))
            if (last <= size(bytes)) call decode_plain(bytes(first + 1:last), found, is_known)
            return
        end do
    end subroutine decode_layout

    !> Decodes a layout of one component: magic, pattern, object id of 16 bytes, stripe size, stripe
    !> count in 16 bits, generation; version 3 adds a pool name of 16 bytes; then 24 bytes for each
    !> stripe, of which the last 4 are its OST.
    pure subroutine decode_plain(bytes, found, is_known)
        integer(int8), intent(in) :: bytes(:)
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known

        integer(int64), parameter :: version_1 = int(z'0bd10bd0', int64), &
            version_3 = int(z'0bd30bd0', int64)
        integer, parameter :: header = 32, pool_name = 16, stripe = 24
        integer :: before   ! bytes before the first stripe

        is_known = .false.
        if (size(bytes) < header) return
        before = header
        if (unsigned(bytes(1:4)) == version_3) then
            before = header + pool_name
        else if (unsigned(bytes(1:4)) /= version_1) then
            return
        end if
        is_known = .true.
        found%size = unsigned(bytes(25:28))
        found%count = unsigned(bytes(29:30))
        if (found%count == 65535) found%count = -1     ! all, in a directory's default
        if (size(bytes) >= before + stripe) then
            found%offset = unsigned(bytes(before + stripe - 3:before + stripe))
        end if
    end subroutine decode_plain

    !> A little-endian number of up to 7 bytes.
    pure integer(int64) function unsigned(bytes) result(number)
        integer(int8), intent(in) :: bytes(:)

        integer :: i

        number = 0
        do i = size(bytes), 1, -1
            number = 256*number + iand(int(bytes(i), int64), 255_int64)
        end do
    end function unsigned

end module benchio_striping
